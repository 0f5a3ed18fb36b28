//! The types of the JSON API beside what goes over the wire.

use anyhow::Result;
use grip_testkit::Author;
use grip_web::{
    SyncHandle,
    api_types::{
        Explained, Gaps, IndexStatus, IndexedRepo, Jobs, SumDbView, SyncStatus, WaitingEvents,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{index, support::Node, sync::Figures, watching::Watching};

/// Reads a response by its type and writes it again: nothing is lost. Returns its keys in their
/// order, one a line.
async fn keys_of<T: Serialize + DeserializeOwned>(node: &Node, path: &str) -> Result<String> {
    let text = node.get(path).await?.text();
    let typed: T = serde_json::from_str(&text)?;
    assert_eq!(
        json!(typed),
        serde_json::from_str::<Value>(&text)?,
        "{path}"
    );
    let key = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        let (key, _) = line.trim_start().strip_prefix('"')?.split_once("\": ")?;
        Some(format!("{}{key}\n", &line[..indent]))
    };
    Ok(text.lines().filter_map(key).collect())
}

#[tokio::test]
async fn the_responses_of_the_api_are_those_of_its_types() -> Result<()> {
    let node = Node::start_whole(|_| {}, SyncHandle::new(Figures::default())).await?;
    let id = node.wait_for_data(&Author::new(), "tides").await?;
    insta::assert_snapshot!("sync", keys_of::<SyncStatus>(&node, "/api/v1/sync").await?);
    let purgatory = keys_of::<WaitingEvents>(&node, "/api/v1/purgatory?limit=1").await?;
    insta::assert_snapshot!("purgatory", purgatory);
    let explain = keys_of::<Explained>(&node, &format!("/api/v1/explain/{id}")).await?;
    insta::assert_snapshot!("explain", explain);
    let (indexed, _) = index::node().await?;
    insta::assert_snapshot!(
        "index",
        keys_of::<IndexStatus>(&indexed, "/api/v1/index").await?
    );
    let repo = "/api/v1/index/repos/forge.example/acme/tides?limit=1";
    insta::assert_snapshot!("index_repo", keys_of::<IndexedRepo>(&indexed, repo).await?);
    let sumdb = keys_of::<SumDbView>(&indexed, "/api/v1/index/sumdb").await?;
    insta::assert_snapshot!("index_sumdb", sumdb);
    let jobs = keys_of::<Jobs>(&indexed, "/api/v1/queue?limit=1").await?;
    insta::assert_snapshot!("queue", jobs);
    let watching = Watching::start().await?;
    let gaps = keys_of::<Gaps>(&watching.node, "/api/v1/github/gaps").await?;
    insta::assert_snapshot!("github_gaps", gaps);
    let status = keys_of::<grip_ingest::Status>(&watching.node, "/api/v1/github/status").await?;
    insta::assert_snapshot!("github_status", status);
    Ok(())
}
