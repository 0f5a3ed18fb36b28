//! A node that fetches at once, projects that live elsewhere, and what is asked of both.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, RelayClient, events::tag, git, until};
use nostr::prelude::{Event, Timestamp};
use serde::Deserialize;
use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_gripfast");

/// Settings under which hosts on this machine are asked without delay.
const EAGER: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_DEFAULT_DELAY_SECS", "0"),
    ("NGIT_SYNC_LOOP_INTERVAL_MS", "100"),
];

pub struct Scene {
    pub node: Node,
    pub relay: RelayClient,
}

impl Scene {
    /// A node that asks hosts on this machine, and at once.
    pub async fn new() -> Result<Self> {
        Self::with(&[]).await
    }

    /// Such a node with further settings, which win.
    pub async fn with(env: &[(&str, &str)]) -> Result<Self> {
        Self::start(&[EAGER, env].concat()).await
    }

    /// A node with these settings alone.
    pub async fn start(env: &[(&str, &str)]) -> Result<Self> {
        let mut node = Node::prepare(BINARY, &[])?;
        for (key, value) in env {
            node.set_env(key, value);
        }
        node.launch().await?;
        let relay = node.connect().await?;
        Ok(Self { node, relay })
    }

    /// Announces `project` here, with its data at `urls`.
    pub async fn announce(&mut self, project: &Project, urls: &[String]) -> Result<Event> {
        let event = project.announcement(&[&self.node], urls);
        self.relay.publish_ok(&event).await?;
        Ok(event)
    }

    /// Publishes an event that must wait for its data.
    pub async fn hold(&mut self, event: &Event) -> Result<()> {
        let answer = self.relay.publish(event).await?;
        ensure!(answer.is_held(), "not held: {answer:?}");
        Ok(())
    }

    /// Publishes a state that must wait and returns it.
    pub async fn hold_state(&mut self, project: &Project, tip: &str) -> Result<Event> {
        let state = project.state(&[("refs/heads/main", tip)]);
        self.hold(&state).await?;
        Ok(state)
    }

    pub async fn serves(&mut self, event: &Event) -> Result<bool> {
        self.relay.serves(&event.id).await
    }

    /// Waits until `event` is served.
    pub async fn released(&mut self, event: &Event) -> Result<()> {
        let connecting = self.node.connect();
        let mut relay = connecting.await?;
        loop_until("the event is served", async || {
            Ok(relay.serves(&event.id).await?.then_some(()))
        })
        .await
        .with_context(|| format!("log:\n{}", self.node.log()))
    }

    /// What was tried for `event`, newest first.
    pub async fn tried(&self, event: &Event) -> Result<Vec<Tried>> {
        let path = format!("/api/v1/explain/{}", event.id.to_hex());
        let explanation = self.json(&path).await?;
        let searches = explanation["sync"].as_array().context("no sync")?;
        let tried = searches
            .iter()
            .filter_map(|search| search["tried"].as_array());
        let all = tried.flatten().cloned().map(serde_json::from_value);
        Ok(all.collect::<Result<_, _>>()?)
    }

    /// Waits until so many tries for `event` have ended.
    pub async fn has_tried(&self, event: &Event, tries: usize) -> Result<Vec<Tried>> {
        let mut last = Vec::new();
        let waiting = loop_until("tries that ended", async || {
            last = self.tried(event).await?;
            Ok((last.len() >= tries).then_some(()))
        });
        let waited = waiting.await;
        waited.with_context(|| format!("{last:?}\nlog:\n{}", self.node.log()))?;
        Ok(last)
    }

    /// How many events of these kinds are served.
    pub async fn count(&mut self, kinds: &[u16]) -> Result<usize> {
        let filter = serde_json::json!({"kinds": kinds, "limit": 5_000});
        Ok(self.relay.query(&[filter]).await?.len())
    }

    /// Waits until so many events of these kinds are served, as long as they become more.
    pub async fn has_served(&mut self, kinds: &[u16], wanted: usize) -> Result<()> {
        let mut served = 0;
        while served < wanted {
            let before = served;
            served = loop_until("more is served", async || {
                let now = self.count(kinds).await?;
                Ok((now > before).then_some(now))
            })
            .await
            .with_context(|| format!("stuck at {before}; log:\n{}", self.node.log()))?;
        }
        ensure!(served == wanted, "{served} of {wanted} are served");
        Ok(())
    }

    /// The JSON that a GET of `path` answers with.
    pub async fn json(&self, path: &str) -> Result<Value> {
        let answer = self.node.get(path).await?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        let start = answer.find("\r\n\r\n").context("no body")?;
        let body = &answer[start..];
        let object = body.find('{').zip(body.rfind('}'));
        let (first, last) = object.context("no object")?;
        Ok(serde_json::from_str(&body[first..=last])?)
    }

    /// Runs the binary as the operator of this node does; returns what it printed.
    #[expect(
        clippy::disallowed_methods,
        reason = "the binary is what is tested here"
    )]
    pub async fn gripfast(&self, arguments: &[&str]) -> Result<String> {
        let output = tokio::process::Command::new(BINARY)
            .current_dir(self.node.work_dir())
            .args(arguments)
            .env("NGIT_BIND_ADDRESS", self.node.authority())
            .env("NGIT_DOMAIN", self.node.authority())
            .env("GRIPFAST_DATA_DIR", self.node.data_dir())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{arguments:?}: {said}{complaint}");
        Ok(said)
    }

    /// Lets the node try again now, whatever its backoff.
    pub async fn sync_now(&self, project: &Project) -> Result<()> {
        self.gripfast(&["sync", "now", &project.identifier])
            .await
            .map(drop)
    }

    /// Where `project` is cloned from here.
    pub fn url(&self, project: &Project) -> String {
        project
            .owner
            .clone_url(&self.node.authority(), &project.identifier)
    }

    /// The branches and tags served here.
    pub async fn refs(&self, project: &Project) -> Result<Vec<(String, String)>> {
        branches_and_tags(&self.url(project)).await
    }

    fn repository(&self, project: &Project) -> std::path::PathBuf {
        let name = format!("{}.git", project.identifier);
        let root = self.node.data_dir().join("git");
        root.join(project.owner.npub()).join(name)
    }

    /// The object is in no store that is served from.
    pub async fn lacks(&self, project: &Project, oid: &str) -> Result<()> {
        let repository = self.repository(project);
        let found = git::run(&repository, ["cat-file", "-e", oid]).await?;
        ensure!(!found.ok, "{oid} stayed behind");
        Ok(())
    }

    /// The repository is whole, and nothing is left in quarantine.
    pub async fn is_clean(&self, project: &Project) -> Result<()> {
        let repository = self.repository(project);
        let checked = git::run(&repository, ["fsck", "--full", "--strict"]).await?;
        checked.text().context("fsck")?;
        let quarantine = self.node.data_dir().join("git/.quarantine");
        until("quarantine is empty", || {
            let left = files_below(&quarantine);
            std::future::ready((left == 0).then_some(()))
        })
        .await
    }
}

/// One URL that was asked, as the node tells it.
#[derive(Clone, Debug, Deserialize)]
pub struct Tried {
    pub url: String,
    pub outcome: String,
    pub oids_fetched: usize,
    pub is_success: bool,
}

fn files_below(directory: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => files_below(&entry.path()),
        _ => 1,
    };
    entries.map(count).sum()
}

/// [`until`] for probes that may fail.
pub async fn loop_until<T>(
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let looking = async {
        loop {
            if let Some(found) = probe().await? {
                return Ok(found);
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    grip_testkit::within(what, looking).await?
}

/// Waits until `is_so` holds.
pub async fn wait_until(what: &str, is_so: impl Fn() -> bool) -> Result<()> {
    until(what, || std::future::ready(is_so().then_some(()))).await
}

/// The branches and tags of `url`.
pub async fn branches_and_tags(url: &str) -> Result<Vec<(String, String)>> {
    let mut refs = git::ls_remote(url).await?;
    refs.retain(|(name, _)| name.starts_with("refs/heads/") || name.starts_with("refs/tags/"));
    refs.sort();
    Ok(refs)
}

/// A repository that somebody announces.
pub struct Project {
    pub owner: Author,
    pub identifier: String,
}

impl Project {
    pub fn new(identifier: &str) -> Self {
        Self {
            owner: Author::new(),
            identifier: identifier.to_owned(),
        }
    }

    /// An announcement that lists the services of `nodes`, and the data at `urls`.
    pub fn announcement(&self, nodes: &[&Node], urls: &[String]) -> Event {
        let own = nodes
            .iter()
            .map(|node| self.owner.clone_url(&node.authority(), &self.identifier));
        let clone = ["clone".to_owned()].into_iter().chain(own);
        let relays = nodes.iter().map(|node| node.relay_url());
        let tags = vec![
            tag(["d", &self.identifier]),
            tag(clone.chain(urls.iter().cloned())),
            tag(["relays".to_owned()].into_iter().chain(relays)),
        ];
        self.owner.sign(30617, "", tags)
    }

    pub fn state(&self, refs: &[(&str, &str)]) -> Event {
        self.state_at(refs, 0)
    }

    /// A state that counts as made so many seconds ago.
    pub fn state_at(&self, refs: &[(&str, &str)], seconds_ago: u64) -> Event {
        let at = Timestamp::from_secs(Timestamp::now().as_secs() - seconds_ago);
        let head = Some("refs/heads/main");
        self.owner.state_at(&self.identifier, refs, head, at)
    }
}
