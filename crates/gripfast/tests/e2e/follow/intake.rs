//! Deliveries of followed relays: made-up names, refused events, answers before what they answer, and more
//! than fits at once.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject, Node,
    events::tag,
    fake_relay::{Nip77, Script, honest},
    git, until_ok, until_true, while_advancing,
};
use nostr::prelude::{Event, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    hostile::host_with_all,
    scene::{node, node_with, publish, relays, served, until_relay},
};

/// Messages about things that nobody asked for.
const MADE_UP: usize = 500;

fn is_history(message: &Value) -> bool {
    message[0] == "REQ" && message[2]["limit"] != 0
}

/// What is said under names of the relay's own, `event` among it.
fn made_up(event: &Value) -> Vec<Value> {
    let about = |n: usize| {
        let name = format!("g{}", 1_000_000 + n);
        let id = format!("{n:064x}");
        [
            json!(["EVENT", name, event]),
            json!(["EOSE", name]),
            json!(["CLOSED", name, "rate-limited: slow down"]),
            json!(["NEG-MSG", name, "6100000200"]),
            json!(["NEG-ERR", name, "blocked: no"]),
            json!(["OK", id, false, "rate-limited: slow down"]),
            json!(["COUNT", name, {"count": n}]),
        ]
    };
    (0..MADE_UP).flat_map(about).collect()
}

/// The count of a metric with these labels.
async fn metric(node: &Node, name: &str) -> Result<u64> {
    let metrics = node.get("/metrics").await?.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.context("the metric")?.trim().parse()?)
}

/// Names of subscriptions, ids of events and addresses of relays.
#[tokio::test]
async fn g02_34_names_that_a_relay_makes_up_become_nothing_here() -> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let real = Author::new().issue(&project.owner, "tides", "ebb");
    let smuggled = Author::new().issue(&project.owner, "tides", "flood");
    // Of nobody here, and with relays of its own.
    let strange = "ws://127.0.3.99:9/strange";
    let tags = vec![
        tag(["d", "ebb"]),
        tag(["clone", "https://git.example/ebb.git"]),
        tag(["relays", strange]),
    ];
    let elsewhere = Author::new().sign(30617, "", tags);
    let (events, under_other_names) = (vec![json!(real), json!(elsewhere)], json!(smuggled));
    let script = move |message: &Value| {
        let mut answers = Vec::new();
        if is_history(message) {
            answers.extend(made_up(&under_other_names));
        }
        answers.extend(honest(message, &events));
        answers
    };
    let relay = FakeRelay::start("127.0.3.11", Arc::new(script)).await?;
    host_with_all(&project, &node, &[relay.url()]).await?;
    served(&node, &real).await?;
    let shown = until_relay(&node, "its history is whole", |relay| {
        relay["full_at"].is_i64() && relay["is_reading_history"] == false
    })
    .await?;
    // No refusal of what was never asked for pauses anything.
    ensure!(shown["health"] == "healthy", "{shown}");
    ensure!(shown["subscriptions"].as_u64() <= Some(20), "{shown}");
    let mut client = node.connect().await?;
    ensure!(!client.serves(&smuggled.id).await?, "it was not asked for");
    let shown = relays(&node).await?;
    ensure!(shown.len() == 1, "{shown:?}");
    let metrics = node.get("/metrics").await?.text();
    for word in ["g10000", "strange", &smuggled.id.to_hex()] {
        ensure!(!metrics.contains(word), "{word} is a label");
    }
    Ok(())
}

/// A relay with `events` that sends each of them once.
fn sending_once(events: Vec<Value>) -> Script {
    let sent: Mutex<HashSet<String>> = Mutex::default();
    Arc::new(move |message: &Value| {
        let mut answers = honest(message, &events);
        answers.retain(|answer| {
            let id = answer[2]["id"].as_str();
            id.is_none_or(|id| sent.lock().insert(id.to_owned()))
        });
        answers
    })
}

/// It is kept whole for the time in which the maintainer's announcement comes: the relay sends it once.
#[tokio::test]
async fn g02_35_a_state_that_was_refused_for_want_of_a_maintainer_is_judged_again_with_them()
-> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let helper = Author::new();
    let refs = [("refs/heads/theirs", project.tip.as_str())];
    let state = helper.state("tides", &refs, None);
    let relay = FakeRelay::start("127.0.3.12", sending_once(vec![json!(state)])).await?;
    host_with_all(&project, &node, &[relay.url()]).await?;
    until_relay(&node, "it was delivered and refused", |relay| {
        relay["events_received"] == 1 && relay["full_at"].is_i64()
    })
    .await?;
    ensure!(metric(&node, "ngit_sync_events_total{fate=\"refused\"}").await? == 1);
    let at = Timestamp::now() + 1;
    let lists = |author: &Author, other: &Author| {
        let tags = vec![tag(["maintainers", &other.hex()])];
        author.announcement_at(&node.authority(), "tides", tags, at)
    };
    publish(&node, &lists(&project.owner, &helper)).await?;
    publish(&node, &lists(&helper, &project.owner)).await?;
    served(&node, &state).await?;
    git::until_ref(&project.url(&node), "refs/heads/theirs", &project.tip).await
}

/// The shortest time that the setting knows.
const REMEMBERED: Duration = Duration::from_secs(1);

/// What was refused is part of what is compared, so that the relay does not send it again; after the time of
/// the setting it is asked for once more.
#[tokio::test]
async fn g02_35_a_refused_event_is_not_fetched_again_while_it_is_remembered() -> Result<()> {
    for (remembered, is_sent_again) in [("3600", false), ("1", true)] {
        let node = node_with(&[("NGIT_REJECTED_COLD_INDEX_EXPIRY_SECS", remembered)]).await?;
        let project = LocalProject::new("tides")?;
        let stranger = Author::new().announcement("git.elsewhere.example", "ebb", vec![]);
        let (nip77, events) = (Nip77::default(), vec![json!(stranger)]);
        let script = move |message: &Value| nip77.answer(message, &events);
        let relay = FakeRelay::start("127.0.3.17", Arc::new(script)).await?;
        host_with_all(&project, &node, &[relay.url()]).await?;
        let is_read = |relay: &Value| {
            relay["full_at"].is_i64()
                && relay["is_reading_history"] == false
                && relay["events_received"].as_u64() >= Some(1)
        };
        until_relay(&node, "it was delivered and refused", is_read).await?;
        let id = stranger.id.to_hex();
        let fetched = || -> usize {
            let requests = relay.requests();
            requests.iter().filter(|it| it.asks("ids", &id)).count()
        };
        ensure!(fetched() == 1);
        if is_sent_again {
            let decided = Instant::now();
            until_true("it is forgotten", || decided.elapsed() > REMEMBERED).await?;
        }
        let compared = |connection: usize| -> usize {
            let requests = relay.requests().into_iter();
            let of_this = requests.filter(|it| it.connection == connection && it.is_comparison);
            of_this.count()
        };
        relay.hang_up();
        until_true("it is compared again", || compared(1) > 0).await?;
        until_relay(&node, "it was read again", |relay| {
            relay["health"] == "healthy" && is_read(relay)
        })
        .await?;
        ensure!((fetched() > 1) == is_sent_again, "{:?}", relay.heard());
    }
    Ok(())
}

/// An update of a pull request that is known by the pull request alone.
fn update(project: &LocalProject, request: &Event) -> Event {
    let tags = vec![
        tag(["E", &request.id.to_hex()]),
        tag(["A", &project.coordinate()]),
        tag(["c", &project.tip]),
        tag(["clone", "https://git.example/tides.git"]),
    ];
    Author::new().sign(1619, "", tags)
}

/// By whichever way it comes: from the relay, or from its author.
#[tokio::test]
async fn g02_36_an_answer_that_came_before_what_it_answers_is_served_once_that_is_here()
-> Result<()> {
    for by_relay in [true, false] {
        let node = node().await?;
        let project = LocalProject::new("tides")?;
        let place = "https://git.example/tides.git";
        let request = Author::new().pull_request(&project.owner, "tides", &project.tip, place);
        let update = update(&project, &request);
        let early = FakeRelay::with_events("127.0.3.13", vec![json!(update)]).await?;
        let late = FakeRelay::with_events("127.0.3.16", vec![json!(request)]).await?;
        host_with_all(&project, &node, &[early.url()]).await?;
        until_relay(&node, "it was delivered and refused", |relay| {
            relay["events_received"].as_u64() >= Some(1) && relay["full_at"].is_i64()
        })
        .await?;
        let mut client = node.connect().await?;
        ensure!(!client.serves(&update.id).await?);
        if by_relay {
            let tags = vec![
                tag(["d", "tides"]),
                tag(["clone".to_owned(), project.url(&node)]),
                tag([
                    "relays".to_owned(),
                    node.relay_url(),
                    early.url(),
                    late.url(),
                ]),
            ];
            let at = Timestamp::now() + 1;
            publish(&node, &project.owner.sign_at(30617, "", tags, at)).await?;
        } else {
            publish(&node, &request).await?;
        }
        served(&node, &request).await?;
        served(&node, &update)
            .await
            .with_context(|| format!("by a relay: {by_relay}"))?;
    }
    Ok(())
}

/// Events of one answer, and their length: more than wait at once, by both measures.
const BURST: u64 = 1_100;
const BURST_BYTES: usize = 8_000;
/// How long nothing more of it may be decided.
const STALLED: Duration = Duration::from_secs(20);

/// Nothing of it is lost, nobody else waits for it, and it counts once all of it was decided.
#[tokio::test]
async fn g02_38_more_than_fits_at_once_is_read_as_fast_as_it_is_decided() -> Result<()> {
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let author = Author::new();
    let issues: Vec<Event> = (0..BURST)
        .map(|n| {
            let content = format!("{n:0width$}", width = BURST_BYTES);
            let tags = vec![tag(["a", &project.coordinate()])];
            author.sign_at(1621, &content, tags, Timestamp::now() - 10_000 + n)
        })
        .collect();
    let all: Vec<Value> = issues.iter().map(|issue| json!(issue)).collect();
    let burst = move |message: &Value| {
        let asks = is_history(message) && message[2]["#a"].is_array();
        if !asks || message[2]["until"].is_u64() {
            return honest(message, &[]);
        }
        let events = all.iter().map(|event| json!(["EVENT", message[1], event]));
        events.chain([json!(["EOSE", message[1]])]).collect()
    };
    let other = Author::new().issue(&project.owner, "tides", "ebb");
    let bursting = FakeRelay::start("127.0.3.14", Arc::new(burst)).await?;
    let quiet = FakeRelay::with_events("127.0.3.15", vec![json!(other)]).await?;
    let before = node.anonymous_rss_bytes()?;
    host_with_all(&project, &node, &[bursting.url(), quiet.url()]).await?;
    served(&node, &other).await?;
    let url = bursting.url();
    let of_burst = |relay: &Value| relay["relay"] == url.as_str();
    while_advancing("the burst", STALLED, async || {
        let shown = until_relay(&node, "it is followed", of_burst).await?;
        let received = shown["events_received"].as_u64();
        Ok(received.filter(|received| *received < BURST))
    })
    .await?;
    until_relay(&node, "all of it was decided", |relay| {
        of_burst(relay) && relay["full_at"].is_i64()
    })
    .await?;
    let mut client = node.connect().await?;
    let filter = json!({"kinds": [1621], "authors": [author.hex()], "limit": 5_000});
    until_ok("they are served", async || {
        let here = client.query(std::slice::from_ref(&filter)).await?;
        Ok((here.len() as u64 == BURST).then_some(()))
    })
    .await?;
    let grown = node.anonymous_rss_bytes()?.saturating_sub(before);
    println!("memory grew by {} KiB", grown >> 10);
    ensure!(grown < 64 << 20, "memory grew by {grown} bytes");
    Ok(())
}
