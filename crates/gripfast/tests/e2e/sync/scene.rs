//! A node that fetches at once, projects that live elsewhere, and what is asked of both.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Clock, LocalProject, Node, Project, RelayClient, RemoteHost, RemoteProject, git, until_ok,
    until_true,
};
use nostr::prelude::Event;
use serde::Deserialize;
use serde_json::Value;

use crate::BINARY;

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

    /// A node with further settings whose clock and timers can be set.
    pub async fn by_clock(env: &[(&str, &str)]) -> Result<(Self, Clock)> {
        let mut node = Node::prepare(BINARY, &[EAGER, env].concat())?;
        let clock = Clock::of_timers(node.work_dir(), 1)?;
        for (name, value) in clock.settings()? {
            node.set_env(&name, &value);
        }
        node.launch().await?;
        let relay = node.connect().await?;
        Ok((Self { node, relay }, clock))
    }

    /// A node with these settings, and a project `x` whose data is at 127.0.0.2.
    pub async fn with_remote(env: &[(&str, &str)]) -> Result<(Self, RemoteProject)> {
        let local = LocalProject::new("x")?;
        let remote = RemoteProject::start("127.0.0.2", "x.git", local).await?;
        Ok((Self::with(env).await?, remote))
    }

    /// Announces a project whose data is elsewhere and returns its state, which waits for it.
    pub async fn hold_remote(&mut self, remote: &RemoteProject) -> Result<Event> {
        self.announce(remote, std::slice::from_ref(&remote.url))
            .await?;
        self.hold_state(remote, &remote.tip).await
    }

    /// Announces projects at `host`, which serves their data as `all.git`; their states wait.
    pub async fn hold_many(
        &mut self,
        host: &RemoteHost,
        tip: &str,
        names: impl IntoIterator<Item = String>,
    ) -> Result<()> {
        for name in names {
            let url = host.alias("all.git", &format!("{name}.git"))?;
            let project = Project::new(&name);
            self.announce(&project, &[url]).await?;
            self.hold_state(&project, tip).await?;
        }
        Ok(())
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
        let mut relay = self.node.connect().await?;
        until_ok("the event is served", async || {
            Ok(relay.serves(&event.id).await?.then_some(()))
        })
        .await
        .with_context(|| format!("log:\n{}", self.node.log()))
    }

    /// What was tried for `event`, newest first.
    pub async fn tried(&self, event: &Event) -> Result<Vec<UrlAttempt>> {
        let explanation = self.node.explain(&event.id.to_hex()).await?;
        let searches = explanation["sync"].as_array().context("no sync")?;
        let tried = searches
            .iter()
            .filter_map(|search| search["tried"].as_array());
        let all = tried.flatten().cloned().map(serde_json::from_value);
        Ok(all.collect::<Result<_, _>>()?)
    }

    /// Waits until so many tries for `event` have ended.
    pub async fn has_tried(&self, event: &Event, tries: usize) -> Result<Vec<UrlAttempt>> {
        let mut last = Vec::new();
        let waiting = until_ok("tries that ended", async || {
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
            served = until_ok("more is served", async || {
                let now = self.count(kinds).await?;
                Ok((now > before).then_some(now))
            })
            .await
            .with_context(|| format!("stuck at {before}; log:\n{}", self.node.log()))?;
        }
        ensure!(served == wanted, "{served} of {wanted} are served");
        Ok(())
    }

    /// Waits until `event` has expired and is looked for all the same.
    pub async fn is_wanted(&self, event: &Event) -> Result<()> {
        let (id, kind) = (event.id.to_hex(), event.kind.as_u16());
        let what = format!("kind {kind} is wanted");
        let wanted = until_ok(&what, async || {
            let list = self.node.json("/api/v1/purgatory").await?;
            let mut waiting = list["waiting"].as_array().into_iter().flatten();
            let is_it = |entry: &&Value| entry["id"] == id.as_str() && entry["status"] == "wanted";
            Ok(waiting.find(is_it).map(drop))
        });
        let wanted = wanted.await;
        wanted.with_context(|| format!("log:\n{}", self.node.log()))
    }

    /// Lets the node try again now, whatever its backoff.
    pub async fn sync_now(&self, project: &Project) -> Result<()> {
        let now = ["sync", "now", &project.identifier];
        self.node.run(&now).await.map(drop)
    }

    /// The branches and tags that `project` has here are these.
    pub async fn has_refs(&self, project: &Project, refs: &[(&str, &str)]) -> Result<()> {
        let served = git::branches_and_tags(&project.url(&self.node)).await?;
        let named: Vec<_> = served
            .iter()
            .map(|(n, o)| (n.as_str(), o.as_str()))
            .collect();
        ensure!(named == refs, "{named:?} is not {refs:?}");
        Ok(())
    }

    /// The object is in no store that is served from.
    pub async fn lacks(&self, project: &Project, oid: &str) -> Result<()> {
        let repository = project.directory(&self.node);
        let found = git::run(&repository, ["cat-file", "-e", oid]).await?;
        ensure!(!found.ok, "{oid} stayed behind");
        Ok(())
    }

    /// The repository is whole, and nothing is left in quarantine.
    pub async fn is_clean(&self, project: &Project) -> Result<()> {
        let repository = project.directory(&self.node);
        let checked = git::run(&repository, ["fsck", "--full", "--strict"]).await?;
        checked.text().context("fsck")?;
        let quarantine = self.node.data_dir().join("git/.quarantine");
        until_true("quarantine is empty", || files_below(&quarantine) == 0).await
    }
}

/// One URL that was asked, as the node tells it.
#[derive(Clone, Debug, Deserialize)]
pub struct UrlAttempt {
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
