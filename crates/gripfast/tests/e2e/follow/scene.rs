//! Nodes that follow relays on this machine.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, git, until_ok};
use nostr::prelude::Event;
use serde_json::{Value, json};

use crate::BINARY;

/// Settings under which relays on this machine are followed.
pub const NEAR: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_BASE_BACKOFF_SECS", "1"),
    ("NGIT_SYNC_MAX_BACKOFF_SECS", "1"),
    ("NGIT_LOG_LEVEL", "info,grip_follow=debug"),
    ("GRIPFAST_SYNC_DOMAIN_RATE_LIMIT", "6000"),
    ("GRIPFAST_SYNC_DOMAIN_CONCURRENT", "50"),
];

pub async fn node() -> Result<Node> {
    node_with(&[]).await
}

/// Such a node with further settings.
pub async fn node_with(env: &[(&str, &str)]) -> Result<Node> {
    Node::start_with(BINARY, &[NEAR, env].concat()).await
}

/// What a node has exchanged with other relays since its start.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    pub events: u64,
    pub messages: u64,
    pub received: u64,
    pub sent: u64,
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            events,
            messages,
            received,
            sent,
        } = self;
        write!(
            f,
            "{events} events, {messages} messages, {received} bytes received, {sent} sent"
        )
    }
}

pub async fn traffic(node: &Node) -> Result<Traffic> {
    let relays = relays(node).await?;
    let sum = |name: &str| relays.iter().filter_map(|relay| relay[name].as_u64()).sum();
    Ok(Traffic {
        events: sum("events_received"),
        messages: sum("messages"),
        received: sum("bytes_received"),
        sent: sum("bytes_sent"),
    })
}

/// Waits until `node` serves an event.
pub async fn served(node: &Node, event: &Event) -> Result<()> {
    let mut relay = node.connect().await?;
    let what = format!("kind {} is served", event.kind.as_u16());
    until_ok(&what, async || {
        Ok(relay.serves(&event.id).await?.then_some(()))
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))
}

/// Waits until `node` serves all of `events`.
pub async fn all_served(node: &Node, events: &[&Event]) -> Result<()> {
    for event in events {
        served(node, event).await?;
    }
    Ok(())
}

/// Every event that a node serves, by id, but the profile and relay list of its own key.
pub async fn events_of(node: &Node) -> Result<Vec<String>> {
    let mut relay = node.connect().await?;
    let events = relay.query(&[json!({"limit": 5000})]).await?;
    let accept = [("accept", "application/nostr+json")];
    let document: Value = node.ask("GET", "/", &accept, b"").await?.json()?;
    let own = &document["self"];
    let events = events.iter().filter(|event| *own != event.pubkey.to_hex());
    let mut ids: Vec<String> = events.map(|event| event.id.to_hex()).collect();
    ids.sort();
    Ok(ids)
}

/// Announces a project on all of `nodes`.
pub async fn announce(project: &LocalProject, nodes: &[&Node]) -> Result<Event> {
    let announcement = project.announcement_at(nodes, &[], 60);
    for node in nodes {
        let mut relay = node.connect().await?;
        relay.publish_ok(&announcement).await?;
    }
    Ok(announcement)
}

/// Publishes an event on one node.
pub async fn publish(node: &Node, event: &Event) -> Result<()> {
    let mut relay = node.connect().await?;
    relay.publish_ok(event).await?;
    Ok(())
}

/// Publishes the state of the tip on one node and pushes there.
pub async fn push(project: &LocalProject, node: &Node, age: u64) -> Result<Event> {
    let state = project.state(age);
    publish(node, &state).await?;
    project.push(node).await?;
    Ok(state)
}

/// Says that both nodes have the same branches and tags of a project.
pub async fn same_refs(project: &LocalProject, a: &Node, b: &Node) -> Result<()> {
    let (a, b) = (project.url(a), project.url(b));
    let (a, b) = (
        git::branches_and_tags(&a).await?,
        git::branches_and_tags(&b).await?,
    );
    ensure!(a == b && !a.is_empty(), "{a:?} is not {b:?}");
    Ok(())
}

/// The relays that a node follows, as its API tells.
pub async fn relays(node: &Node) -> Result<Vec<Value>> {
    let status = node.json("/api/v1/sync").await?;
    Ok(status["relays"].as_array().cloned().unwrap_or_default())
}

/// Waits until a relay of `node` satisfies `is_so`.
pub async fn until_relay(node: &Node, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    let found = until_ok(what, async || {
        Ok(relays(node).await?.into_iter().find(&is_so))
    })
    .await;
    let shown = relays(node).await?;
    found.with_context(|| format!("relays: {shown:#?}\nlog:\n{}", node.log()))
}
