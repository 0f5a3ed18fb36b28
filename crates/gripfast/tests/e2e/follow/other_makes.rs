//! Relays of another make.

use std::time::Instant;

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, PythonRelay, RelayClient, events::tag};
use nostr::prelude::{Event, Timestamp};

use super::scene::{all_served, node, publish, push, served, traffic, until_relay};

/// More than one page of it.
const ISSUES: u64 = 300;

#[tokio::test]
async fn g02_19_a_relay_from_the_python_package_index_is_read_by_pages_and_then_live() -> Result<()>
{
    let relay = PythonRelay::start().await?;
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let mut remote = RelayClient::connect(&relay.url()).await?;
    let issues: Vec<Event> = (0..ISSUES)
        .map(|n| {
            let tags = vec![tag(["a", &project.coordinate()])];
            let at = Timestamp::now() - 10_000 + n;
            Author::new().sign_at(1621, &n.to_string(), tags, at)
        })
        .collect();
    let answers: Vec<Event> = issues
        .iter()
        .step_by(30)
        .map(|issue| Author::new().comment(issue, "still"))
        .collect();
    for event in issues.iter().chain(&answers) {
        remote.publish_ok(event).await?;
    }
    let began = Instant::now();
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(&node)]),
        tag(["relays".to_owned(), node.relay_url(), relay.url()]),
    ];
    publish(&node, &project.owner.sign(30617, "", tags)).await?;
    push(&project, &node, 5).await?;
    let all: Vec<&Event> = issues.iter().chain(&answers).collect();
    all_served(&node, &all).await?;
    let shown = until_relay(&node, "its history is whole", |relay| {
        relay["is_reading_history"] == false && relay["full_at"].is_u64()
    })
    .await?;
    println!(
        "{} events after {:?}: {}",
        all.len(),
        began.elapsed(),
        traffic(&node).await?
    );
    ensure!(
        shown["history_by"] == "req" && shown["health"] == "healthy",
        "{shown}"
    );
    // What comes there from now on comes here.
    let late = Author::new().issue(&project.owner, "tides", "late");
    remote.publish_ok(&late).await?;
    served(&node, &late).await
}
