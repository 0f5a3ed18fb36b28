//! Repositories that people announce, with the events and the places that belong to them.

use anyhow::Result;
use nostr::prelude::{Event, Timestamp};

use crate::{
    Author, Node, RemoteHost, WorkTree,
    events::{percent_encode, tag},
    http::request,
    wire,
};

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

    /// The path of its URL at every service.
    pub fn path(&self) -> String {
        format!(
            "/{}/{}.git",
            self.owner.npub(),
            percent_encode(&self.identifier)
        )
    }

    /// The coordinate of its announcement.
    pub fn coordinate(&self) -> String {
        self.owner.coordinate(&self.identifier)
    }

    /// The module path that its place on a test node proves: that is a loopback address.
    pub fn module_path(&self) -> String {
        format!("127.0.0.1/{}/{}", self.owner.npub(), self.identifier)
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

/// A project with its work tree, which has a commit on `main`.
#[derive(Debug)]
pub struct LocalProject {
    pub project: Project,
    pub tree: WorkTree,
    /// The commit of `main`.
    pub tip: String,
}

impl std::ops::Deref for LocalProject {
    type Target = Project;

    fn deref(&self) -> &Project {
        &self.project
    }
}

impl LocalProject {
    pub fn new(identifier: &str) -> Result<Self> {
        Self::with_tree(identifier, WorkTree::with_commit()?)
    }

    pub fn with_tree(identifier: &str, tree: WorkTree) -> Result<Self> {
        Ok(Self {
            project: Project::new(identifier),
            tip: tree.tip("HEAD")?,
            tree,
        })
    }

    /// A Go module of its place.
    pub fn module(identifier: &str) -> Result<Self> {
        let mut local = Self::new(identifier)?;
        let go_mod = format!("module {}\n\ngo 1.19\n", local.module_path());
        local.tip = local.tree.commit("go.mod", &go_mod)?;
        Ok(local)
    }

    /// A state that names the tip, so many seconds old.
    pub fn state(&self, age: u64) -> Event {
        self.project.state_at(&[(MAIN, &self.tip)], age)
    }

    /// Announces it on `node` with events of so many seconds ago; returns the state, which waits
    /// for its push.
    pub async fn announce(&self, node: &Node, age: u64) -> Result<Event> {
        let mut relay = node.connect().await?;
        let announcement = self.announcement_at(&[node], &[], age);
        relay.publish_ok(&announcement).await?;
        let state = self.state(age);
        relay.publish_ok(&state).await?;
        Ok(state)
    }

    /// Pushes `main` to `node`.
    pub async fn push(&self, node: &Node) -> Result<()> {
        self.tree.push_ok(&self.url(node), &["main"]).await
    }

    /// Announces it on `node` and pushes it there; returns the state.
    pub async fn publish(&self, node: &Node, age: u64) -> Result<Event> {
        let state = self.announce(node, age).await?;
        self.push(node).await?;
        Ok(state)
    }

    /// The first push of `main`, as a request.
    pub async fn push_request(&self) -> Result<Vec<u8>> {
        let mut body = wire::commands(&[(wire::ZERO, &self.tip, MAIN)], wire::CAPABILITIES);
        body.extend(wire::pack(&self.tree, &self.tip, None).await?);
        let path = format!("{}/git-receive-pack", self.path());
        Ok(request(
            "POST",
            &path,
            &[("content-type", wire::PUSH_TYPE)],
            &body,
        ))
    }
}

/// A project whose data is at a host of its own.
#[derive(Debug)]
pub struct RemoteProject {
    pub local: LocalProject,
    pub host: RemoteHost,
    /// The clone URL at the host.
    pub url: String,
}

impl std::ops::Deref for RemoteProject {
    type Target = LocalProject;

    fn deref(&self) -> &LocalProject {
        &self.local
    }
}

impl RemoteProject {
    /// Starts the host on a loopback address, with the project as `repository`.
    pub async fn start(address: &str, repository: &str, local: LocalProject) -> Result<Self> {
        let host = RemoteHost::start(address).await?;
        let url = host.host(&local.tree, repository)?;
        Ok(Self { local, host, url })
    }
}
