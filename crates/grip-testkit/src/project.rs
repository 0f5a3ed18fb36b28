//! Repositories that people announce, with the events and the places that belong to them.

use anyhow::{Result, ensure};
use nostr::prelude::{Event, Timestamp};

use crate::{Author, Node, WorkTree, events::tag};

/// The branch that states name first, and their HEAD.
const MAIN: &str = "refs/heads/main";

/// A repository that somebody announces.
#[derive(Debug)]
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

    /// Where `node` serves it.
    pub fn url(&self, node: &Node) -> String {
        self.owner.clone_url(&node.authority(), &self.identifier)
    }

    /// Where `node` keeps it on disk.
    pub fn directory(&self, node: &Node) -> std::path::PathBuf {
        let name = format!("{}.git", self.identifier);
        let root = node.data_dir().join("git");
        root.join(self.owner.npub()).join(name)
    }

    /// An announcement that lists the services of `nodes`, and the data at `urls`.
    pub fn announcement(&self, nodes: &[&Node], urls: &[String]) -> Event {
        self.announcement_at(nodes, urls, 0)
    }

    /// An announcement that counts as made so many seconds ago.
    pub fn announcement_at(&self, nodes: &[&Node], urls: &[String], seconds_ago: u64) -> Event {
        let own = nodes.iter().map(|node| self.url(node));
        let clone = ["clone".to_owned()].into_iter().chain(own);
        let relays = nodes.iter().map(|node| node.relay_url());
        let tags = vec![
            tag(["d", &self.identifier]),
            tag(clone.chain(urls.iter().cloned())),
            tag(["relays".to_owned()].into_iter().chain(relays)),
        ];
        let at = Timestamp::now() - seconds_ago;
        self.owner.sign_at(30617, "", tags, at)
    }

    pub fn state(&self, refs: &[(&str, &str)]) -> Event {
        self.state_at(refs, 0)
    }

    /// A state that counts as made so many seconds ago.
    pub fn state_at(&self, refs: &[(&str, &str)], seconds_ago: u64) -> Event {
        let at = Timestamp::now() - seconds_ago;
        self.owner.state_at(&self.identifier, refs, Some(MAIN), at)
    }
}

/// A project with its work tree, which has one commit on `main`.
#[derive(Debug)]
pub struct LocalProject {
    pub project: Project,
    pub tree: WorkTree,
    /// The commit of `main`.
    pub tip: String,
}

impl LocalProject {
    pub fn new(identifier: &str) -> Result<Self> {
        let tree = WorkTree::with_commit()?;
        Ok(Self {
            project: Project::new(identifier),
            tip: tree.tip("HEAD")?,
            tree,
        })
    }

    /// Where `node` serves it.
    pub fn url(&self, node: &Node) -> String {
        self.project.url(node)
    }

    /// A state that names the tip, so many seconds old.
    pub fn state(&self, age: u64) -> Event {
        self.project.state_at(&[(MAIN, &self.tip)], age)
    }

    /// Pushes `main` to `node`.
    pub async fn push(&self, node: &Node) -> Result<()> {
        let pushed = self.tree.push(&self.url(node), &["main"]).await?;
        ensure!(pushed.ok, "{}", pushed.stderr);
        Ok(())
    }

    /// Announces it on `node` and pushes it there, with events of so many seconds ago; returns
    /// the state.
    pub async fn publish(&self, node: &Node, age: u64) -> Result<Event> {
        let mut relay = node.connect().await?;
        let announcement = self.project.announcement_at(&[node], &[], age);
        relay.publish_ok(&announcement).await?;
        let state = self.state(age);
        relay.publish_ok(&state).await?;
        self.push(node).await?;
        Ok(state)
    }
}
