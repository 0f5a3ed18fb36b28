//! A node on a server, somebody with a repository, and what is asked of both.

use anyhow::{Context as _, Result};
use grip_testkit::{Author, Node, PostgresServer, WorkTree};
use nostr::prelude::{Event, Timestamp};
use serde_json::Value;

pub const BINARY: &str = env!("CARGO_BIN_EXE_gripfast");

/// A node that is not running yet and will use this server.
pub fn prepare(server: &PostgresServer, env: &[(&str, &str)]) -> Result<Node> {
    let mut node = Node::prepare(BINARY, env)?;
    node.set_env("DATABASE_URL", &server.url());
    Ok(node)
}

pub async fn start(server: &PostgresServer) -> Result<Node> {
    let mut node = prepare(server, &[])?;
    node.launch().await?;
    Ok(node)
}

/// Somebody with a repository whose data is only at home.
pub struct Person {
    pub author: Author,
    pub tree: WorkTree,
    pub tip: String,
}

impl Person {
    pub fn new() -> Result<Self> {
        let tree = WorkTree::with_commit()?;
        let tip = tree.tip("HEAD")?;
        let author = Author::new();
        Ok(Self { author, tree, tip })
    }

    pub fn announcement(&self, node: &Node) -> Event {
        self.author.announcement(&node.authority(), "x", vec![])
    }

    /// A state that names the tip, `age` seconds old.
    pub fn state(&self, age: u64) -> Event {
        let at = Timestamp::now() - age;
        let refs = [("refs/heads/main", self.tip.as_str())];
        self.author.state_at("x", &refs, Some("main"), at)
    }

    pub fn url(&self, node: &Node) -> String {
        self.author.clone_url(&node.authority(), "x")
    }
}

/// How an event stands: `served`, `held`, `unknown` …
pub async fn status(node: &Node, event: &Event) -> Result<String> {
    let path = format!("/api/v1/explain/{}", event.id.to_hex());
    let answer = node.get(&path).await?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    let told: Value = serde_json::from_str(body).with_context(|| answer.clone())?;
    let status = told["status"].as_str().context("no status")?;
    Ok(status.to_owned())
}
