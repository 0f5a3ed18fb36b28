//! Nodes whose database is on a server.

use anyhow::{Context as _, Result};
use grip_testkit::{Node, PostgresServer};
use nostr::prelude::Event;

use crate::BINARY;

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

/// The status of an event: `served`, `held`, `unknown` …
pub async fn status(node: &Node, event: &Event) -> Result<String> {
    let told = node.explain(&event.id.to_hex()).await?;
    let status = told["status"].as_str().context("no status")?;
    Ok(status.to_owned())
}
