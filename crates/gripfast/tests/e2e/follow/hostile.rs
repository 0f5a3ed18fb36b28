//! Relays of another make, and hostile ones.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject, Node,
    events::tag,
    fake_relay::{Document, EndlessIssues, honest},
    until_ok, until_true, while_advancing,
};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::scene::{events_of, node, node_with, publish, push, relays, served, until_relay};

/// Strangers who name relays, how many each of them, and how many are followed at most.
const STRANGERS: usize = 5;
const NAMED: usize = 8;
const FOLLOWED: usize = 32;

/// Has `node` serve a project that also names the relay `url`.
async fn host_with(project: &LocalProject, node: &Node, url: &str) -> Result<()> {
    host_with_all(project, node, &[url.to_owned()]).await
}

pub(super) async fn host_with_all(
    project: &LocalProject,
    node: &Node,
    urls: &[String],
) -> Result<()> {
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

/// Nothing is published to it (G02-51).
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

/// A document that is absent, never comes, never ends or is elsewhere keeps nobody from following, and where it
/// is said to be nobody looks.
#[tokio::test]
async fn g02_42_a_relay_is_followed_whatever_it_says_of_itself() -> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let elsewhere = FakeRelay::with_events("127.0.0.19", Vec::new()).await?;
    let place = elsewhere.url().replace("ws://", "http://");
    let documents = [
        Document::Absent,
        Document::Hanging,
        Document::Endless,
        Document::Moved(place),
    ];
    let (mut relays, mut issues) = (Vec::new(), Vec::new());
    for (document, last) in documents.into_iter().zip(20..) {
        let issue = Author::new().issue(&project.owner, "tides", &last.to_string());
        let events = vec![json!(issue)];
        let relay = FakeRelay::with_events(&format!("127.0.0.{last}"), events).await?;
        relay.set_document(document);
        relays.push(relay);
        issues.push(issue);
    }
    let urls: Vec<String> = relays.iter().map(FakeRelay::url).collect();
    host_with_all(&project, &node, &urls).await?;
    for issue in &issues {
        served(&node, issue).await?;
    }
    ensure!(relays.iter().all(|relay| relay.described() > 0));
    ensure!(elsewhere.described() == 0, "a redirect was followed");
    let read = relays[2].flooded_bytes();
    println!("{read} bytes of an endless document were sent");
    // What the buffers of both sockets take in beside the 256 KiB that are read.
    ensure!(read < 12 << 20, "{read} bytes of a document were read");
    Ok(())
}

/// Neither an address of this machine nor another port of the configured one is dialled because an event names
/// it (G02-53); the configured one is.
#[tokio::test]
async fn g02_53_55_only_what_the_operator_configured_may_be_inside() -> Result<()> {
    let configured = FakeRelay::with_events("127.0.0.24", Vec::new()).await?;
    let beside = FakeRelay::with_events("127.0.0.24", Vec::new()).await?;
    let inside = FakeRelay::with_events("127.0.0.25", Vec::new()).await?;
    let node = node_with(&[
        ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "false"),
        ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &configured.url()),
    ])
    .await?;
    let project = LocalProject::new("tides")?;
    host_with_all(&project, &node, &[beside.url(), inside.url()]).await?;
    // By then it was looked which relays are to be followed for it.
    until_true("the configured relay is asked for it", || {
        let heard = configured.heard();
        heard
            .iter()
            .any(|message| message.to_string().contains("\"tides\""))
    })
    .await?;
    for relay in [&beside, &inside] {
        ensure!(relay.connected().is_empty() && relay.described() == 0);
    }
    let followed = relays(&node).await?;
    let urls: Vec<&Value> = followed.iter().map(|relay| &relay["relay"]).collect();
    ensure!(urls == [configured.url().as_str()], "{urls:?}");
    Ok(())
}

#[tokio::test]
async fn g02_48_a_pause_outlives_a_restart() -> Result<()> {
    let script = |message: &Value| match message[0].as_str() {
        Some("REQ") if message[2]["limit"] == 0 => vec![json!(["EOSE", message[1]])],
        Some("REQ") => vec![json!(["CLOSED", message[1], "rate-limited: slow down"])],
        Some("NEG-OPEN") => vec![json!(["NEG-ERR", message[1], "rate-limited: slow down"])],
        _ => Vec::new(),
    };
    let relay = FakeRelay::start("127.0.0.26", Arc::new(script)).await?;
    let mut node = node().await?;
    let project = LocalProject::new("tides")?;
    host_with(&project, &node, &relay.url()).await?;
    let is_paused = |relay: &Value| relay["health"] == "rate_limited";
    until_relay(&node, "the relay has asked for patience", is_paused).await?;
    let before = relay.heard().len();
    node.crash_and_restart().await?;
    until_relay(
        &node,
        "it is connected, and the pause is not over",
        is_paused,
    )
    .await?;
    let heard = &relay.heard()[before..];
    ensure!(heard.is_empty(), "{heard:?}");
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

/// G02-55: what the operator configured is not one of those that events name. Strangers fill the table of
/// relays, and none of theirs answers: some keep a dial waiting, some a history.
#[tokio::test]
async fn g02_49_relays_of_strangers_neither_displace_nor_delay_the_configured_one() -> Result<()> {
    let mute = FakeRelay::mute("127.0.0.16").await?;
    // Connections are taken by the system, and nobody ever reads from them.
    let listener = tokio::net::TcpListener::bind("127.0.0.17:0").await?;
    let hanging = format!("ws://{}", listener.local_addr()?);
    let events: Arc<parking_lot::Mutex<Vec<Value>>> = Arc::default();
    let known = Arc::clone(&events);
    let script = move |message: &Value| honest(message, &known.lock());
    // Its name comes after theirs in any order.
    let configured = FakeRelay::start("127.0.0.18", Arc::new(script)).await?;
    let mut node = node_with(&[
        ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &configured.url()),
        ("GRIPFAST_SYNC_MAX_RELAYS", &FOLLOWED.to_string()),
    ])
    .await?;
    for stranger in 0..STRANGERS {
        let project = LocalProject::new("tides")?;
        let names = (0..NAMED).map(|n| {
            let relay = if n < 3 { mute.url() } else { hanging.clone() };
            format!("{relay}/{stranger}/{n}")
        });
        let relays = ["relays".to_owned(), node.relay_url()].into_iter();
        let tags = vec![
            tag(["d", "tides"]),
            tag(["clone".to_owned(), project.url(&node)]),
            tag(relays.chain(names)),
        ];
        publish(&node, &project.owner.sign(30617, "", tags)).await?;
    }
    let url = configured.url();
    until_ok("the table is full", async || {
        let all = relays(&node).await?;
        let of_strangers = all.iter().filter(|relay| relay["relay"] != url.as_str());
        Ok((of_strangers.count() == FOLLOWED).then_some(()))
    })
    .await?;
    // After a start all are dialled, and read, at once.
    let announcement = LocalProject::new("ebb")?.announcement_at(&[&node], &[], 60);
    events.lock().push(json!(announcement));
    node.crash_and_restart().await?;
    let id = announcement.id.to_hex();
    until_ok("the configured relay is read", async || {
        let explained = node.explain(&id).await?;
        Ok((explained["status"] == "held").then_some(()))
    })
    .await?;
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

/// One full page, whatever `until` says: the next page ends where this one begins, and nothing before that comes.
#[tokio::test]
async fn a_relay_that_repeats_one_page_is_asked_a_few_times_and_confirms_nothing() -> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let page: Vec<Value> = (0..120)
        .map(|n| {
            let at = nostr::prelude::Timestamp::now() - 10_000 + n;
            let tags = vec![tag(["a", &project.coordinate()])];
            json!(Author::new().sign_at(1621, &n.to_string(), tags, at))
        })
        .collect();
    let script = move |message: &Value| {
        let mut message = message.clone();
        for filter in message.as_array_mut().into_iter().flatten().skip(2) {
            if let Some(filter) = filter.as_object_mut() {
                filter.remove("until");
            }
        }
        honest(&message, &page)
    };
    let looping = FakeRelay::start("127.0.0.27", Arc::new(script)).await?;
    let real = Author::new().issue(&project.owner, "tides", "ebb");
    let other = FakeRelay::with_events("127.0.0.28", vec![json!(real)]).await?;
    host_with_all(&project, &node, &[looping.url(), other.url()]).await?;
    let url = looping.url();
    let shown = until_relay(&node, "its history is given up for now", |relay| {
        relay["relay"] == url.as_str() && relay["health"] == "degraded"
    })
    .await?;
    served(&node, &real).await?;
    ensure!(
        shown["full_at"].is_null(),
        "a loop counted as whole: {shown}"
    );
    looping.settled().await?;
    let requests = looping.requests().into_iter();
    let pages = requests.filter(|it| it.is_page() && it.has("#a"));
    let ends: Vec<Option<u64>> = pages.map(|page| page.number("until")).collect();
    ensure!(ends.len() > 1, "its second page was not asked for");
    ensure!(ends.len() <= 3, "it was asked again and again: {ends:?}");
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
