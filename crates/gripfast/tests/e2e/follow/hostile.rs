//! Relays of another make, and hostile ones.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use anyhow::{Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject, Node, events::tag, fake_relay::honest, until_ok,
};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::scene::{events_of, node, publish, push, served, until_relay};

/// A served project on `node` that also names the relay `url`.
async fn project_with(node: &Node, url: &str) -> Result<LocalProject> {
    let project = LocalProject::new("tides")?;
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(node)]),
        tag(["relays".to_owned(), node.relay_url(), url.to_owned()]),
    ];
    publish(node, &project.owner.sign(30617, "", tags)).await?;
    push(&project, node, 5).await?;
    Ok(project)
}

fn json_of(events: &[&Event]) -> Vec<Value> {
    events.iter().map(|event| json!(event)).collect()
}

/// G02-42: that it has no document is no obstacle. G02-51: nothing is published to it.
#[tokio::test]
async fn g02_23_a_relay_without_nip77_is_read_by_pages() -> Result<()> {
    let node = node().await?;
    let events: Arc<parking_lot::Mutex<Vec<Value>>> = Arc::default();
    let known = Arc::clone(&events);
    let script = move |message: &Value| honest(message, &known.lock());
    let relay = FakeRelay::start("127.0.0.11", Arc::new(script)).await?;
    let project = project_with(&node, &relay.url()).await?;
    let issues: Vec<Event> = (0..600)
        .map(|n| {
            let at = nostr::prelude::Timestamp::now() - 10_000 + n;
            let tags = vec![tag(["a", &project.coordinate()])];
            Author::new().sign_at(1621, &n.to_string(), tags, at)
        })
        .collect();
    events
        .lock()
        .extend(issues.iter().map(|issue| json!(issue)));
    // It was empty when it was read first: the node is told to look at it again by a new value.
    let second = LocalProject::new("sails")?;
    let tags = vec![
        tag(["d", "sails"]),
        tag(["clone".to_owned(), second.url(&node)]),
        tag(["relays".to_owned(), node.relay_url(), relay.url()]),
    ];
    publish(&node, &second.owner.sign(30617, "", tags)).await?;
    let about_second = Author::new().issue(&second.owner, "sails", "torn");
    events.lock().push(json!(about_second));
    push(&second, &node, 5).await?;
    served(&node, &about_second).await?;
    let asked = relay.heard();
    ensure!(asked.iter().any(|message| message[0] == "REQ"), "{asked:?}");
    ensure!(
        asked.iter().all(|message| message[0] != "EVENT"),
        "{asked:?}"
    );
    Ok(())
}

#[tokio::test]
async fn g02_33_a_forged_copy_does_not_keep_out_the_real_event() -> Result<()> {
    let node = node().await?;
    let events: Arc<parking_lot::Mutex<Vec<Value>>> = Arc::default();
    let known = Arc::clone(&events);
    let script = move |message: &Value| honest(message, &known.lock());
    let relay = FakeRelay::start("127.0.0.12", Arc::new(script)).await?;
    let project = LocalProject::new("tides")?;
    let real = Author::new().issue(&project.owner, "tides", "ebb");
    let mut forged = json!(real);
    forged["content"] = json!("send money");
    let foreign = Author::new().sign(1, "spam", vec![]);
    let mut stolen = json!(real);
    stolen["sig"] = json!("00".repeat(64));
    events.lock().extend([forged, stolen]);
    events.lock().extend(json_of(&[&real, &foreign]));
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(&node)]),
        tag(["relays".to_owned(), node.relay_url(), relay.url()]),
    ];
    publish(&node, &project.owner.sign(30617, "", tags)).await?;
    push(&project, &node, 5).await?;
    served(&node, &real).await?;
    let all = events_of(&node).await?;
    ensure!(
        !all.contains(&foreign.id.to_hex()),
        "a foreign event was taken"
    );
    Ok(())
}

/// Sends events without end, of nobody and never asked for, and never an EOSE.
fn flood(sent: &Arc<AtomicUsize>) -> grip_testkit::fake_relay::Script {
    let sent = Arc::clone(sent);
    let spammer = Author::new();
    Arc::new(move |message: &Value| {
        if message[0] != "REQ" {
            return Vec::new();
        }
        let event = json!(spammer.sign(1, &"x".repeat(10_000), vec![]));
        sent.fetch_add(2_000, Ordering::Relaxed);
        vec![json!(["EVENT", message[1], event]); 2_000]
    })
}

#[tokio::test]
async fn a_relay_that_floods_and_never_ends_changes_nothing_and_delays_no_honest_one() -> Result<()>
{
    let (node, honest_node) = (node().await?, node().await?);
    let sent = Arc::new(AtomicUsize::new(0));
    let relay = FakeRelay::start("127.0.0.13", flood(&sent)).await?;
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
    until_ok("the flood has come", async || {
        Ok((sent.load(Ordering::Relaxed) >= 2_000).then_some(()))
    })
    .await?;
    let state = push(&project, &honest_node, 5).await?;
    served(&node, &state).await?;
    let url = relay.url();
    let shown = until_relay(&node, "the flood was read", |relay| {
        relay["relay"] == url.as_str() && relay["events_received"].as_u64() > Some(1_000)
    })
    .await?;
    ensure!(shown["events_taken"] == 0, "{shown}");
    ensure!(
        shown["full_at"].is_null(),
        "an endless answer counted as whole: {shown}"
    );
    let grown = node.anonymous_rss_bytes()?.saturating_sub(before);
    println!(
        "{} events sent, memory grew by {} KiB",
        sent.load(Ordering::Relaxed),
        grown / 1024
    );
    ensure!(grown < 100 << 20, "memory grew by {grown} bytes");
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
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(&node)]),
        tag(["relays".to_owned(), node.relay_url(), relay.url()]),
    ];
    publish(&node, &project.owner.sign(30617, "", tags)).await?;
    push(&project, &node, 5).await?;
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
