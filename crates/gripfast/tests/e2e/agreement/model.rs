//! The model of the protocol, played on the real binary.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Answer, Author, Node, PostgresServer, RelayClient, RemoteHost,
    events::npub,
    model::{Campaign, Fixture, Repository, Restart, Status, Subject},
    until, wire,
};
use nostr::prelude::{Event, EventId, PublicKey};
use serde_json::{Value, json};

use crate::{BINARY, agreement::FETCHING};

/// Stories that are played with the other tests, on each database.
const STORIES: u32 = 6;
const THREADS: u32 = 2;
/// More free space than any disk has, as bytes.
const NO_DISK_HAS: &str = "9000000000000000000";

/// A node, the server of its database if it has one, and a host that has what others fetch.
struct Binary {
    node: Node,
    relay: Option<RelayClient>,
    server: Option<PostgresServer>,
    host: RemoteHost,
    banned: BTreeSet<PublicKey>,
    is_database_away: bool,
}

impl Binary {
    async fn start(server: Option<PostgresServer>, address: &str) -> Result<Self> {
        let mut node = Node::prepare(BINARY, FETCHING)?;
        node.set_env("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1s");
        // Stories ask one host more often in a minute than is polite.
        node.set_env("GRIPFAST_SYNC_DOMAIN_RATE_LIMIT", "6000");
        if let Some(server) = &server {
            node.set_env("DATABASE_URL", &server.url());
        }
        node.launch().await?;
        Ok(Self {
            node,
            relay: None,
            server,
            host: RemoteHost::start(address).await?,
            banned: BTreeSet::new(),
            is_database_away: false,
        })
    }

    async fn relay(&mut self) -> Result<&mut RelayClient> {
        if self.relay.is_none() {
            self.relay = Some(self.node.connect().await?);
        }
        Ok(self.relay.as_mut().expect("it was just connected"))
    }

    /// An order of the operator.
    async fn order(&self, method: &str, path: &str) -> Result<Value> {
        let bearer = format!("Bearer {}", self.node.admin_token()?);
        let headers = [("authorization", bearer.as_str())];
        let response = self.node.ask(method, path, &headers, b"").await?;
        ensure!(
            response.status < 300,
            "{method} {path}: {}",
            response.text()
        );
        response.json()
    }

    /// The search for what waits under a name, if there is one.
    async fn search(&self, name: &str) -> Result<Option<Value>> {
        let mut queued = self.node.json("/api/v1/sync").await?;
        let queue = queued["queue"].as_array_mut().context("no queue")?;
        let entry = queue.iter_mut().find(|it| it["identifier"] == name);
        Ok(entry.map(Value::take))
    }

    /// The refs that a client is shown, and HEAD.
    async fn refs(&self, path: &str) -> Result<BTreeMap<String, String>> {
        let path = format!("/{path}/info/refs?service=git-upload-pack");
        let listed = self.node.get(&path).await?;
        ensure!(listed.status == 200, "{path}: {}", listed.text());
        let text = listed.text();
        let lines = text
            .lines()
            .map(|line| line.split('\0').next().unwrap_or(line));
        let pairs = lines.filter_map(|line| line.trim_end().rsplit_once(' '));
        let pairs = pairs.filter(|(_, name)| name.starts_with("refs/"));
        // The length of a line, and a flush before the first, stand before the object.
        let oid = |text: &str| text[text.len().saturating_sub(40)..].to_owned();
        let refs = pairs.map(|(start, name)| (name.to_owned(), oid(start)));
        let head = text.split_whitespace();
        let head = head.filter_map(|word| word.strip_prefix("symref=HEAD:"));
        let head = head.map(|branch| ("HEAD".to_owned(), branch.to_owned()));
        Ok(refs.chain(head).collect())
    }
}

impl Subject for Binary {
    fn service(&self) -> String {
        self.node.authority()
    }

    fn clone_url(&self, name: &str) -> Option<String> {
        Some(self.host.clone_url(name))
    }

    async fn send(&mut self, event: &Event) -> Result<Answer> {
        let answer = self.relay().await?.publish(event).await;
        if answer.is_err() {
            self.relay = None;
        }
        answer
    }

    async fn arrive(&mut self, event: &Event) -> Result<()> {
        self.send(event).await.map(drop)
    }

    async fn push(&mut self, owner: &Author, name: &str, body: Vec<u8>) -> Result<()> {
        let path = format!("/{}/{name}.git/git-receive-pack", owner.npub());
        let headers = [("content-type", wire::PUSH_TYPE)];
        let response = self.node.ask("POST", &path, &headers, &body).await?;
        // A repository may be gone, read-only, or without room: what it is told is not of interest.
        ensure!(response.status != 500, "{}", response.text());
        Ok(())
    }

    async fn fetch(&mut self, name: &str, tip: &str, fixture: &Fixture) -> Result<()> {
        if !self.host.path(name).exists() {
            self.host.create(name)?;
        }
        let refspec = format!("{tip}:refs/heads/{tip}");
        self.host.take(fixture.tree(), name, &[&refspec])?;
        let before = self.search(name).await?;
        let before = before.map_or(0, |entry| entry["attempts"].as_u64().unwrap_or(0));
        let path = format!("/api/v1/sync/{name}/now");
        if self.order("POST", &path).await.is_err() {
            // Nothing waits for it.
            return Ok(());
        }
        // The host is not asked for what nobody here could show, such as the state of somebody invited.
        until("an attempt was made, or nothing waits any more", || async {
            let Some(entry) = self.search(name).await.ok()? else {
                return Some(());
            };
            let has_ended = entry["in_progress"] == false && entry["attempts"] != before;
            has_ended.then_some(())
        })
        .await
    }

    async fn statuses(&mut self, events: &[&Event]) -> Result<Vec<Status>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<String> = events.iter().map(|event| event.id.to_hex()).collect();
        let served = self.relay().await?.query(&[json!({ "ids": ids })]).await?;
        let served: BTreeSet<EventId> = served.iter().map(|event| event.id).collect();
        let mut statuses = Vec::new();
        for event in events {
            statuses.push(if served.contains(&event.id) {
                Status::Served
            } else if self.node.explain(&event.id.to_hex()).await?["status"] == "held" {
                Status::Held
            } else {
                Status::Gone
            });
        }
        Ok(statuses)
    }

    async fn repository(&mut self, owner: &Author, name: &str) -> Result<Option<Repository>> {
        let path = format!("{}/{name}", owner.npub());
        let shown = self.node.get(&format!("/api/v1/repos/{path}")).await?;
        if shown.status == 404 {
            return Ok(None);
        }
        let facts = shown.json()?;
        let refs = self.refs(&format!("{path}.git")).await?;
        let is_served = facts["status"] == "served";
        Ok(Some(Repository { is_served, refs }))
    }

    async fn ban(&mut self, banned: &BTreeSet<PublicKey>) -> Result<()> {
        for key in banned.difference(&self.banned) {
            let path = format!("/api/v1/blocks/add?subject={}", npub(key));
            self.order("POST", &path).await?;
        }
        for key in self.banned.difference(banned) {
            let path = format!("/api/v1/blocks/remove?subject={}", npub(key));
            self.order("POST", &path).await?;
        }
        self.banned = banned.clone();
        Ok(())
    }

    /// The operator drops them: of the ends that a held event has the one that takes no time.
    async fn expire_held(&mut self, held: &[EventId]) -> Result<()> {
        for id in held {
            let path = format!("/api/v1/purgatory/{}", id.to_hex());
            // The end of one may be that of another.
            let _ = self.order("DELETE", &path).await;
        }
        Ok(())
    }

    async fn end_expired(&mut self) -> Result<()> {
        // The node looks for them by itself every second, as it is set, and is not at rest before.
        Ok(())
    }

    async fn restart(&mut self, how: Restart) -> Result<()> {
        self.relay = None;
        if how == Restart::Killed {
            self.node.kill();
        } else {
            self.node.stop().await?;
        }
        if let Some(server) = self.server.as_mut().filter(|_| self.is_database_away) {
            server.launch().await?;
            self.is_database_away = false;
        }
        self.node.remove_env("GRIPFAST_MIN_FREE_BYTES");
        self.node.remove_env("NGIT_DOMAIN");
        match how {
            Restart::Orderly | Restart::Killed => {}
            Restart::DiskFull => self.node.set_env("GRIPFAST_MIN_FREE_BYTES", NO_DISK_HAS),
            Restart::Renamed => self.node.set_env("NGIT_DOMAIN", "renamed.example.com"),
        }
        self.node.launch().await
    }

    /// The server of the database dies; a database in a file dies with its node alone.
    async fn lose_database(&mut self) -> Result<()> {
        if let Some(server) = &mut self.server {
            server.kill();
            self.is_database_away = true;
        }
        Ok(())
    }

    async fn audit(&mut self, _name: &str) -> Result<Vec<String>> {
        let (mut found, mut path) = (Vec::new(), "/api/v1/check".to_owned());
        loop {
            let page = self.order("POST", &path).await?;
            let disagreements = page["disagreements"].as_array().context("a list")?;
            found.extend(disagreements.iter().map(ToString::to_string));
            // What belongs to nobody is told by the last page.
            let Some(next) = page["next"].as_str() else {
                return Ok(found);
            };
            path = format!("/api/v1/check?after={next}");
        }
    }

    fn is_at_rest(&self) -> bool {
        false
    }

    async fn close(mut self) -> Result<()> {
        let ended = self.node.stop().await?;
        ensure!(ended.success(), "{}", self.node.log());
        Ok(())
    }
}

fn played(name: &str, play: Result<grip_testkit::model::Played>) -> Result<()> {
    let played = play.with_context(|| name.to_owned())?;
    println!("{name}: {played}");
    played.must_have_happened()
}

#[test]
fn random_stories_leave_a_node_in_agreement_with_itself() -> Result<()> {
    let campaign = Campaign::from_env(STORIES, THREADS)?;
    let open = async |number: u32| Binary::start(None, &format!("127.0.9.{}", number + 1)).await;
    played("SQLite", campaign.play(open))
}

#[test]
fn random_stories_leave_a_node_on_postgres_in_agreement_with_itself() -> Result<()> {
    let campaign = Campaign::from_env(STORIES, THREADS)?;
    let open = async |number: u32| {
        let server = PostgresServer::durable().await?;
        Binary::start(Some(server), &format!("127.0.10.{}", number + 1)).await
    };
    played("Postgres", campaign.play(open))
}
