//! The same day on a private node (GRASP-08): two members, and a stranger who looks after each step.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, PythonRelay, RelayClient, Response, git};
use nostr::prelude::{Event, ToBech32 as _};
use serde_json::json;

use super::{
    client::{Line, Person},
    served::{IDENTIFIER, Served},
    story::Story,
};
use crate::BINARY;

/// A private node, its members' day, and somebody who is none.
struct PrivateDay {
    story: Story,
    /// An ordinary relay, where profiles and encrypted lists of private servers are (kind 10318).
    ordinary: PythonRelay,
    eve: Person,
    eve_key: Author,
}

/// G08-4 … G08-12 with the real client: NIP-42 to the relay, NIP-98 to git.
#[tokio::test]
async fn a_private_day_with_ngit_3() -> Result<()> {
    let mut day = PrivateDay::begin().await?;
    let told = day.tell().await;
    told.map_err(|error| day.story.report(&error))
}

impl PrivateDay {
    async fn begin() -> Result<Self> {
        let ordinary = PythonRelay::start().await?;
        let people = ["ada", "bob", "eve"].map(|name| {
            let person = Person::with_relay(name, Line::Three, ordinary.url());
            person.map(|person| (person, Author::new()))
        });
        let [ada, bob, eve] = people;
        let ((ada, ada_key), (bob, bob_key), (eve, eve_key)) = (ada?, bob?, eve?);
        for (person, key) in [(&ada, &ada_key), (&bob, &bob_key), (&eve, &eve_key)] {
            let nsec = key.keys.secret_key().to_bech32()?;
            let log_in = ["ngit", "account", "login", "-d", "--offline"];
            let key = ["--nsec", &nsec, "--secret-storage", "file"];
            person.ok(&[&log_in[..], &key].concat()).await?;
        }
        let mut node = Node::prepare(BINARY, &[])?;
        let members = [&ada_key, &bob_key].map(|key| format!("{:?}", key.npub()));
        let members = members.join(", ");
        let text = format!("private_mode = true\nprivate_members = [{members}]\n");
        fs::write(node.work_dir().join("gripfast.toml"), text)?;
        node.launch().await?;
        let served = Served::to_member(&node, &ada_key.npub(), &ada_key)?;
        let story = Story::private(node, served, [ada, bob], bob_key.pubkey());
        Ok(Self {
            story,
            ordinary,
            eve,
            eve_key,
        })
    }

    async fn tell(&mut self) -> Result<()> {
        self.nobody_else_learns("the beginning").await?;
        self.story.init().await?;
        self.nobody_else_learns("init").await?;
        self.story.second_push().await?;
        self.story.tags().await?;
        self.story.branch_comes_and_goes().await?;
        self.story.force_push().await?;
        self.nobody_else_learns("pushes").await?;
        self.story.clone_by_the_contributor().await?;
        self.nobody_else_learns("a clone").await?;
        let request = self.story.pull_request().await?;
        self.nobody_else_learns("a pull request").await?;
        self.story
            .pull_request_seen_by_the_maintainer(&request)
            .await?;
        self.story.issue().await?;
        self.nobody_else_learns("an issue").await?;
        self.story.merge(&request).await?;
        self.nobody_else_learns("a merge").await?;
        self.story.survives_a_crash().await?;
        self.nobody_else_learns("a crash").await?;
        self.eve_clones_nothing().await
    }

    /// What a stranger can ask has the same answers as before anything was there.
    async fn nobody_else_learns(&self, after: &str) -> Result<()> {
        let looked = self.look_as_a_stranger().await;
        looked.with_context(|| format!("a stranger after {after}"))
    }

    async fn look_as_a_stranger(&self) -> Result<()> {
        let (node, url) = (&self.story.node, self.story.served.url());
        let path = url.strip_prefix(&node.http_url()).context("it is there")?;
        let unknown = path.replace(IDENTIFIER, "nothing");
        for below in [
            "",
            "/info/refs?service=git-upload-pack",
            "/tree/main/",
            "/issues",
        ] {
            let (there, not_there) = (format!("{path}{below}"), format!("{unknown}{below}"));
            ensure!(
                self.get(&there).await? == self.get(&not_there).await?,
                "{there}"
            );
        }
        ensure!(git::ls_remote(url).await.is_err());
        let mut relay = node.connect().await?;
        let everything = json!(["REQ", "all", {}]);
        relay.send(everything).await?;
        let answer = relay.expect("a refusal", |it| it[0] != "AUTH").await?;
        ensure!(
            answer[0] == "CLOSED" && answer[2].to_string().contains("auth-required"),
            "{answer}"
        );
        // Nor is anything on the ordinary relay but who people are, and lists that only they can read.
        let mut relay = RelayClient::connect(&self.ordinary.url()).await?;
        let found: Vec<Event> = relay.query(&[json!({})]).await?;
        for event in found {
            let kind = event.kind.as_u16();
            ensure!([0, 3, 10_002, 10_317, 10_318].contains(&kind), "{event:?}");
            ensure!(kind != 10_318 || event.tags.is_empty(), "{event:?}");
            ensure!(!event.content.contains(IDENTIFIER), "{event:?}");
        }
        Ok(())
    }

    /// An answer to the stranger, who proves their own key; without what differs between any two.
    async fn get(&self, path: &str) -> Result<String> {
        let root = path.split_inclusive(".git").next().unwrap_or(path);
        let url = format!("{}{root}", self.story.node.http_url());
        let proof = self.eve_key.authorization(&url);
        let headers = [("authorization", proof.as_str())];
        let mut answer: Response = self.story.node.ask("GET", path, &headers, b"").await?;
        answer.headers.remove("date");
        ensure!(answer.status == 401, "{path}: {answer:?}");
        Ok(format!("{:?} {}", answer.headers, answer.text()))
    }

    /// With the URL from a colleague, and a key of their own.
    async fn eve_clones_nothing(&self) -> Result<()> {
        let url = self.story.origin().await?;
        let refused = self.eve.run(&["git", "clone", &url, "stolen"]).await?;
        ensure!(!refused.worked(), "{refused}");
        Ok(())
    }
}
