//! Relays of another make, and hostile ones.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject, Node, events::tag, fake_relay::EndlessIssues, until_ok,
    until_true, while_advancing,
};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::scene::{events_of, node, node_with, publish, push, relays, served, until_relay};

/// Has `node` serve a project that also names the relay `url`.
async fn host_with(project: &LocalProject, node: &Node, url: &str) -> Result<()> {
    host_with_all(project, node, &[url.to_owned()]).await
}

async fn host_with_all(project: &LocalProject, node: &Node, urls: &[String]) -> Result<()> {
    let relays = ["relays".to_owned(), node.relay_url()];
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(node)]),
        [&relays, urls].concat(),
    ];
    publish(node, &project.owner.sign(30617, "", tags)).await?;
    push(project, node, 5).await?;
    Ok(())
}

/// G02-42: that it has no document is no obstacle. G02-51: nothing is published to it.
#[tokio::test]
async fn g02_23_a_relay_without_nip77_is_read_by_pages() -> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    // More than its page of 500.
    let issues: Vec<Event> = (0..600)
        .map(|n| {
            let at = nostr::prelude::Timestamp::now() - 10_000 + n;
            let tags = vec![tag(["a", &project.coordinate()])];
            Author::new().sign_at(1621, &n.to_string(), tags, at)
        })
        .collect();
    let events = issues.iter().map(|issue| json!(issue)).collect();
    let relay = FakeRelay::with_events("127.0.0.11", events).await?;
    host_with(&project, &node, &relay.url()).await?;
    until_ok("every issue is served", async || {
        let here = events_of(&node).await?;
        let is_here = |issue: &Event| here.contains(&issue.id.to_hex());
        Ok(issues.iter().all(is_here).then_some(()))
    })
    .await?;
    let asked = relay.heard();
    let filters = asked.iter().filter(|message| message[0] == "REQ");
    let filters = filters.flat_map(|message| message.as_array().into_iter().flatten().skip(2));
    let pages: BTreeSet<Option<u64>> = filters
        .filter(|filter| filter["#a"].is_array() && filter["limit"] != 0)
        .map(|filter| filter["until"].as_u64())
        .collect();
    ensure!(pages.len() >= 2, "{asked:?}");
    ensure!(
        asked.iter().all(|message| message[0] != "EVENT"),
        "{asked:?}"
    );
    Ok(())
}

#[tokio::test]
async fn g02_33_a_forged_copy_does_not_keep_out_the_real_event() -> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let real = Author::new().issue(&project.owner, "tides", "ebb");
    let mut forged = json!(real);
    forged["content"] = json!("send money");
    let foreign = Author::new().sign(1, "spam", vec![]);
    let mut stolen = json!(real);
    stolen["sig"] = json!("00".repeat(64));
    let events = vec![forged, stolen, json!(real), json!(foreign)];
    let relay = FakeRelay::with_events("127.0.0.12", events).await?;
    host_with(&project, &node, &relay.url()).await?;
    served(&node, &real).await?;
    let all = events_of(&node).await?;
    ensure!(
        !all.contains(&foreign.id.to_hex()),
        "a foreign event was taken"
    );
    Ok(())
}

/// What a relay sends that floods: far more than the node may take.
const FLOOD_BYTES: u64 = 100 << 20;
/// How long nothing more of it may be read.
const STALLED: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_relay_that_floods_and_never_ends_changes_nothing_and_delays_no_honest_one() -> Result<()>
{
    let (node, honest_node) = (node().await?, node().await?);
    // Of nobody, and never asked for.
    let event = json!(Author::new().sign(1, &"x".repeat(100_000), vec![]));
    let relay = FakeRelay::flooding("127.0.0.13", event).await?;
    let project = LocalProject::new("tides")?;
    let tags = vec![
        tag(["d", "tides"]),
        tag([
            "clone".to_owned(),
            project.url(&node),
            project.url(&honest_node),
        ]),
        tag([
            "relays".to_owned(),
            relay.url(),
            node.relay_url(),
            honest_node.relay_url(),
        ]),
    ];
    let announcement = project.owner.sign(30617, "", tags);
    for node in [&node, &honest_node] {
        publish(node, &announcement).await?;
    }
    let before = node.anonymous_rss_bytes()?;
    until_true("the flood has begun", || relay.flooded_bytes() > 1 << 20).await?;
    let state = push(&project, &honest_node, 5).await?;
    served(&node, &state).await?;
    let url = relay.url();
    while_advancing("the flood", STALLED, async || {
        let all = relays(&node).await?;
        let flooding = all.iter().find(|relay| relay["relay"] == url.as_str());
        let received = flooding.and_then(|relay| relay["bytes_received"].as_u64());
        Ok(received.filter(|received| *received < FLOOD_BYTES))
    })
    .await?;
    let shown = until_relay(&node, "it is shown", |relay| relay["relay"] == url.as_str()).await?;
    ensure!(shown["events_taken"] == 0, "{shown}");
    ensure!(
        shown["full_at"].is_null(),
        "an endless answer counted as whole: {shown}"
    );
    let grown = node.anonymous_rss_bytes()?.saturating_sub(before);
    println!(
        "{} KiB sent, memory grew by {} KiB",
        relay.flooded_bytes() >> 10,
        grown >> 10
    );
    ensure!(grown < 32 << 20, "memory grew by {grown} bytes");
    Ok(())
}

#[tokio::test]
async fn half_a_history_is_kept_and_confirms_nothing() -> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let issue = Author::new().issue(&project.owner, "tides", "ebb");
    let event = json!(issue);
    // One event, and then silence.
    let script = move |message: &Value| match message[0].as_str() {
        Some("REQ") => vec![json!(["EVENT", message[1], event])],
        Some("NEG-OPEN") => vec![json!(["NEG-ERR", message[1], "unsupported: no"])],
        _ => Vec::new(),
    };
    let relay = FakeRelay::start("127.0.0.14", Arc::new(script)).await?;
    host_with(&project, &node, &relay.url()).await?;
    // A live subscription delivers it, whatever history says.
    served(&node, &issue).await?;
    let shown = until_relay(&node, "the relay is shown", |relay| {
        relay["events_taken"] == 1
    })
    .await?;
    ensure!(
        shown["full_at"].is_null() && shown["is_reading_history"] == true,
        "{shown}"
    );
    Ok(())
}

/// Issues of one page of a relay that makes them up.
const PAGE: u64 = 300;

/// Whose share the disk is that a relay fills with true events by free keys: that of its network. All of them
/// were kept for good.
#[tokio::test]
async fn a_relay_of_endless_true_issues_fills_its_share_and_no_more() -> Result<()> {
    const SHARE: usize = 2 << 20;
    let share = SHARE.to_string();
    let node = node_with(&[
        ("GRIPFAST_RELAY_SYNCED_BURST_BYTES", &share),
        ("GRIPFAST_RELAY_SYNCED_BYTES_PER_HOUR", "1024"),
    ])
    .await?;
    let project = LocalProject::new("tides")?;
    let endless = EndlessIssues {
        page: PAGE,
        content_bytes: 20_000,
        also_about: Vec::new(),
    };
    let hostile = FakeRelay::with_endless("127.0.0.17", endless).await?;
    let real = Author::new().issue(&project.owner, "tides", "ebb");
    let honest = FakeRelay::with_events("127.0.0.18", vec![json!(real)]).await?;
    host_with_all(&project, &node, &[hostile.url(), honest.url()]).await?;
    let url = hostile.url();
    let shown = until_relay(&node, "a page is decided", |relay| {
        relay["relay"] == url.as_str() && relay["page"].as_u64() >= Some(PAGE)
    })
    .await?;
    served(&node, &real).await?;
    let mut relay = node.connect().await?;
    let issues = relay
        .query(&[json!({"kinds": [1621], "limit": 5000})])
        .await?;
    let bytes: usize = issues.iter().map(|issue| issue.content.len()).sum();
    println!("{} issues of {bytes} bytes are kept", issues.len());
    ensure!(bytes > SHARE / 2, "little of its share was used");
    ensure!(bytes <= SHARE, "{bytes} bytes are kept");
    ensure!(
        shown["full_at"].is_null(),
        "what was refused counted: {shown}"
    );
    Ok(())
}
