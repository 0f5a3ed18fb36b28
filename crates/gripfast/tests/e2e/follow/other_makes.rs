//! Relays of another make.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, LocalProject, Node, PythonRelay, RelayClient, clock_off_by, events::tag,
};
use nostr::prelude::{Event, Timestamp};
use nostr_relay_builder::{LocalRelay, RelayBuilder, builder::RateLimit};

use super::scene::{all_served, node, publish, push, served, traffic, until_relay};

/// More than one page of the relay in Python.
const ISSUES: u64 = 300;
/// More than one page of rust-nostr's, and several requests by id.
const MORE_ISSUES: u64 = 700;

/// Publishes so many issues of a project on a relay, and answers to some of them.
async fn talk(remote: &mut RelayClient, project: &LocalProject, issues: u64) -> Result<Vec<Event>> {
    let issue = |n: u64| {
        let tags = vec![tag(["a", &project.coordinate()])];
        let at = Timestamp::now() - 10_000 + n;
        Author::new().sign_at(1621, &n.to_string(), tags, at)
    };
    let mut all: Vec<Event> = (0..issues).map(issue).collect();
    let answered: Vec<Event> = all.iter().step_by(30).cloned().collect();
    all.extend(answered.iter().map(|it| Author::new().comment(it, "still")));
    for event in &all {
        remote.publish_ok(event).await?;
    }
    Ok(all)
}

/// Serves a project on `node` that lists another relay, too.
async fn host(project: &LocalProject, node: &Node, relay: &str) -> Result<()> {
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(node)]),
        tag(["relays".to_owned(), node.relay_url(), relay.to_owned()]),
    ];
    publish(node, &project.owner.sign(30617, "", tags)).await?;
    push(project, node, 5).await.map(drop)
}

#[tokio::test]
async fn g02_19_a_relay_from_the_python_package_index_is_read_by_pages_and_then_live() -> Result<()>
{
    let relay = PythonRelay::start().await?;
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let mut remote = RelayClient::connect(&relay.url()).await?;
    let all = talk(&mut remote, &project, ISSUES).await?;
    let began = Instant::now();
    host(&project, &node, &relay.url()).await?;
    all_served(&node, &all.iter().collect::<Vec<_>>()).await?;
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

/// By pages, everything would come a second time two days later.
#[tokio::test]
async fn g02_23_the_relay_of_rust_nostr_is_compared_by_nip77_and_then_followed_live() -> Result<()>
{
    let relay = LocalRelay::new(RelayBuilder::default().rate_limit(RateLimit {
        notes_per_minute: 100_000,
        ..RateLimit::default()
    }));
    relay.run().await?;
    let url = relay.url().await.to_string();
    let mut remote = RelayClient::connect(&url).await?;
    let mut node = node().await?;
    let project = LocalProject::new("tides")?;
    let all = talk(&mut remote, &project, MORE_ISSUES).await?;
    let began = Instant::now();
    host(&project, &node, &url).await?;
    all_served(&node, &all.iter().collect::<Vec<_>>()).await?;
    let is_read = |it: &serde_json::Value| it["is_reading_history"] == false;
    let shown = until_relay(&node, "its history is whole", |it| {
        is_read(it) && it["full_at"].is_i64()
    })
    .await?;
    let first = traffic(&node).await?;
    println!("{} events after {:?}: {first}", all.len(), began.elapsed());
    ensure!(
        shown["history_by"] == "nip77" && shown["health"] == "healthy",
        "{shown}"
    );
    let late = Author::new().issue(&project.owner, "tides", "late");
    remote.publish_ok(&late).await?;
    served(&node, &late).await?;
    // Two days later everything is read again, and nothing of it is sent.
    node.kill();
    for (name, value) in clock_off_by(2 * 86_400)? {
        node.set_env(&name, &value);
    }
    node.launch().await?;
    let full_at = shown["full_at"].as_i64().context("it was read")?;
    until_relay(&node, "it was read again", |it| {
        is_read(it) && it["full_at"].as_i64() > Some(full_at + 86_400_000)
    })
    .await?;
    let second = traffic(&node).await?;
    println!("read again: {second}");
    ensure!(second.events == 0, "{second}");
    Ok(())
}
