//! Relays that the lists of participants name (GRASP-03): which of them, how many, and after whom.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject, Node, clock_off_by, events::tag, fake_relay::honest, until_ok,
    until_true,
};
use nostr::prelude::{Event, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{
    hostile::host_with_all,
    scene::{all_served, node_with, publish, relays, served, until_relay},
};

/// A relay where lists are looked up, and what it has.
struct Index {
    relay: FakeRelay,
    events: Arc<Mutex<Vec<Value>>>,
}

impl Index {
    async fn start(address: &str) -> Result<Self> {
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let known = Arc::clone(&events);
        let script = move |message: &Value| honest(message, &known.lock());
        Ok(Self {
            relay: FakeRelay::start(address, Arc::new(script)).await?,
            events,
        })
    }

    fn add(&self, event: &Event) {
        self.events.lock().push(json!(event));
    }

    /// A node that looks lists up here, and looks for those without one here, too.
    async fn node(&self, env: &[(&str, &str)]) -> Result<Node> {
        let url = self.relay.url();
        let plus = [
            ("NGIT_SYNC_PLUS_ENABLED", "true"),
            ("NGIT_USER_INDEX_RELAYS", url.as_str()),
            ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", url.as_str()),
        ];
        node_with(&[&plus, env].concat()).await
    }
}

/// The list of `author`: each relay with its marker, or none.
fn list(author: &Author, relays: &[(&str, &str)], at: Timestamp) -> Event {
    let tags = relays.iter().map(|(url, marker)| match *marker {
        "" => tag(["r", url]),
        marker => tag(["r", url, marker]),
    });
    author.sign_at(10002, "", tags.collect(), at)
}

/// The relays that a node follows.
async fn followed(node: &Node) -> Result<BTreeSet<String>> {
    let all = relays(node).await?.into_iter();
    let url = |relay: Value| relay["relay"].as_str().map(str::to_owned);
    Ok(all.filter_map(url).collect())
}

/// Waits until a node follows exactly these.
async fn until_followed(node: &Node, wanted: &[&str]) -> Result<()> {
    let wanted: BTreeSet<String> = wanted.iter().map(|url| (*url).to_owned()).collect();
    let mut last = BTreeSet::new();
    let found = until_ok("exactly these are followed", async || {
        last = followed(node).await?;
        Ok((last == wanted).then_some(()))
    })
    .await;
    ensure!(found.is_ok(), "{last:?} is not {wanted:?}\n{}", node.log());
    Ok(())
}

/// Nobody listens there: it is followed all the same, and dialled again and again.
fn absent(name: &str) -> String {
    format!("ws://127.0.3.30:9/{name}")
}

/// Says whether a relay was asked for something.
fn asked(relay: &FakeRelay, field: &str, value: &str) -> bool {
    relay.requests().iter().any(|it| it.asks(field, value))
}

/// Write relays for who they are and what they take part in, read relays of who asked and of owners for what
/// is said to them; nothing of who only answered.
#[tokio::test]
async fn g03_7_four_relays_of_a_list_are_followed_for_each_purpose_in_its_order() -> Result<()> {
    let index = Index::start("127.0.3.21").await?;
    let node = index.node(&[]).await?;
    let project = LocalProject::new("tides")?;
    let (author, other) = (Author::new(), Author::new());
    let [write, read, inbox] = [
        FakeRelay::with_events("127.0.3.22", Vec::new()).await?,
        FakeRelay::with_events("127.0.3.23", Vec::new()).await?,
        FakeRelay::with_events("127.0.3.24", Vec::new()).await?,
    ];
    let [w, r, i] = [write.url(), read.url(), inbox.url()];
    let [u1, u2, w3, w4, r2, r3, o] = ["u1", "u2", "w3", "w4", "r2", "r3", "o"].map(absent);
    let now = Timestamp::now();
    let relays = [
        (w.as_str(), "write"),
        (&u1, ""),
        (&u2, ""),
        // The same again, in another spelling.
        (&w.replace("ws://", "WS://"), "write"),
        (&w3, "write"),
        (&w4, "write"),
        (&r, "read"),
        (&r2, "read"),
        (&r3, "read"),
    ];
    index.add(&list(&author, &relays, now));
    index.add(&list(&other, &[(&o, "read")], now));
    index.add(&list(&project.owner, &[(&i, "read")], now));
    host_with_all(&project, &node, &[]).await?;
    let issue = author.issue(&project.owner, "tides", "ebb");
    publish(&node, &issue).await?;
    publish(&node, &other.comment(&issue, "still")).await?;
    let at = index.relay.url();
    until_followed(&node, &[&at, &w, &u1, &u2, &w3, &r, &r2, &i]).await?;
    let (id, coordinate) = (issue.id.to_hex(), project.coordinate());
    until_true("the write relay is asked for both", || {
        asked(&write, "authors", &author.hex()) && asked(&write, "#e", &id)
    })
    .await?;
    until_true("the read relays are asked for what is said to them", || {
        asked(&read, "#e", &id) && asked(&inbox, "#a", &coordinate)
    })
    .await?;
    ensure!(!asked(&read, "authors", &author.hex()));
    ensure!(!asked(&inbox, "authors", &project.owner.hex()));
    Ok(())
}

/// An index that does not answer to the end says nothing about who has a list.
#[tokio::test]
async fn g03_8_the_fallback_is_asked_only_where_a_look_that_succeeded_found_no_list() -> Result<()>
{
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let script = move |message: &Value| {
        let is_look = message[0] == "REQ" && message[2]["authors"].is_array();
        if is_look && message[2]["limit"] != 0 && broken.load(Ordering::Relaxed) {
            return vec![json!(["CLOSED", message[1], "error: out of order"])];
        }
        honest(message, &[])
    };
    let index = FakeRelay::start("127.0.3.25", Arc::new(script)).await?;
    let person = Author::new();
    let project = LocalProject::new("tides")?;
    let issue = person.issue(&project.owner, "tides", "ebb");
    let answer = Author::new().comment(&issue, "still");
    let fallback = FakeRelay::with_events("127.0.3.26", vec![json!(answer)]).await?;
    let mut node = node_with(&[
        ("NGIT_SYNC_PLUS_ENABLED", "true"),
        ("NGIT_USER_INDEX_RELAYS", &index.url()),
        ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", &fallback.url()),
    ])
    .await?;
    host_with_all(&project, &node, &[]).await?;
    publish(&node, &issue).await?;
    until_true("the index is asked and refuses", || {
        asked(&index, "authors", &person.hex())
    })
    .await?;
    until_relay(&node, "the look failed", |relay| {
        relay["health"] == "degraded"
    })
    .await?;
    until_followed(&node, &[&index.url()]).await?;
    ensure!(fallback.connected().is_empty());
    // After its pause it answers, and has no list.
    is_broken.store(false, Ordering::Relaxed);
    node.kill();
    for (name, value) in clock_off_by(600)? {
        node.set_env(&name, &value);
    }
    node.launch().await?;
    served(&node, &answer).await?;
    ensure!(asked(&fallback, "authors", &person.hex()));
    Ok(())
}

/// By G02-52 and G02-53 too, which hold for all that events name. Generated words are not compared
/// (docs/decisions/0112).
#[tokio::test]
async fn g03_9_a_trap_in_a_list_is_left_out_and_the_rest_of_the_list_is_followed() -> Result<()> {
    let index = Index::start("127.0.3.27").await?;
    let careful = [("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "false")];
    let node = index.node(&careful).await?;
    let project = LocalProject::new("tides")?;
    let person = Author::new();
    let traps = [
        format!("wss://relay.example/{}", "ab".repeat(32)),
        format!("wss://relay.example/inbox/{}", "AB".repeat(32)),
        format!("wss://relay.example/{}", "x".repeat(2_048)),
        "wss://relay.example/relay.example".to_owned(),
        "wss://relay.example/Relay.Example/x".to_owned(),
        "wss://user:secret@relay.example".to_owned(),
        "https://relay.example".to_owned(),
        "ws://127.0.3.28".to_owned(),
        "ws://localhost:7".to_owned(),
        "ws://printer.local".to_owned(),
        "no address".to_owned(),
    ];
    let good = "wss://relay.example/inbox";
    let relays: Vec<(&str, &str)> = traps
        .iter()
        .map(|url| (url.as_str(), ""))
        .chain([(good, "")])
        .collect();
    index.add(&list(&person, &relays, Timestamp::now()));
    host_with_all(&project, &node, &[]).await?;
    publish(&node, &person.issue(&project.owner, "tides", "ebb")).await?;
    until_followed(&node, &[&index.relay.url(), good]).await
}

/// Relays that lists alone name, and people who name one each.
const BY_LISTS: usize = 32;
const PEOPLE: usize = 40;

/// Their number; how often they are read is that of all relays (docs/decisions/0112).
#[tokio::test]
async fn g03_10_32_relays_are_followed_for_lists_alone() -> Result<()> {
    let index = Index::start("127.0.3.29").await?;
    let node = index.node(&[]).await?;
    let project = LocalProject::new("tides")?;
    let common = absent("common");
    let (mut issues, mut lists) = (Vec::new(), Vec::new());
    for n in 0..PEOPLE {
        let person = Author::new();
        let own = absent(&format!("of/{n}"));
        let relays = [(own.as_str(), "write"), (&common, "write")];
        lists.push(list(&person, &relays, Timestamp::now()));
        issues.push(person.issue(&project.owner, "tides", &n.to_string()));
    }
    lists.iter().for_each(|list| index.add(list));
    host_with_all(&project, &node, &[]).await?;
    for issue in &issues {
        publish(&node, issue).await?;
    }
    all_served(&node, &lists.iter().collect::<Vec<_>>()).await?;
    // The index, and as many as fit; one whose place another has got is shown until it is left.
    let all = until_ok("as many as may be are followed", async || {
        let all = followed(&node).await?;
        Ok((all.len() == BY_LISTS + 1).then_some(all))
    })
    .await?;
    ensure!(all.contains(&common), "most people name it: {all:?}");
    Ok(())
}

/// Beside the index there is room for two: that of an announcement, and one of those that lists name.
#[tokio::test]
async fn g03_11_relays_of_lists_come_after_those_of_announcements() -> Result<()> {
    let index = Index::start("127.0.3.31").await?;
    let node = index.node(&[("GRIPFAST_SYNC_MAX_RELAYS", "3")]).await?;
    let project = LocalProject::new("tides")?;
    let [announced, many, few] = ["announced", "many", "few"].map(absent);
    let mut issues = Vec::new();
    for urls in [vec![&many], vec![&many, &few], vec![&many]] {
        let person = Author::new();
        let relays: Vec<(&str, &str)> = urls.iter().map(|url| (url.as_str(), "write")).collect();
        index.add(&list(&person, &relays, Timestamp::now()));
        issues.push(person.issue(&project.owner, "tides", "ebb"));
    }
    host_with_all(&project, &node, std::slice::from_ref(&announced)).await?;
    for issue in &issues {
        publish(&node, issue).await?;
    }
    until_followed(&node, &[&index.relay.url(), &announced, &many]).await?;
    // A relay that an announcement names takes the place of one that lists name.
    let second = LocalProject::new("ebb")?;
    let other = absent("other");
    let tags = vec![
        tag(["d", "ebb"]),
        tag(["clone".to_owned(), second.url(&node)]),
        tag(["relays".to_owned(), node.relay_url(), other.clone()]),
    ];
    publish(&node, &second.owner.sign(30617, "", tags)).await?;
    until_followed(&node, &[&index.relay.url(), &announced, &other]).await
}

#[tokio::test]
async fn g03_12_a_newer_list_replaces_the_relays_of_the_older() -> Result<()> {
    let index = Index::start("127.0.3.32").await?;
    // What a client sends of people is looked at as often as relays are looked over.
    let soon = [("NGIT_SYNC_DISCONNECT_CHECK_INTERVAL_SECS", "1")];
    let node = index.node(&soon).await?;
    let project = LocalProject::new("tides")?;
    let person = Author::new();
    let [older, newer] = ["older", "newer"].map(absent);
    let now = Timestamp::now();
    let first = list(&person, &[(&older, "")], now - 60);
    index.add(&first);
    host_with_all(&project, &node, &[]).await?;
    publish(&node, &person.issue(&project.owner, "tides", "ebb")).await?;
    until_followed(&node, &[&index.relay.url(), &older]).await?;
    all_served(&node, &[&first]).await?;
    publish(&node, &list(&person, &[(&newer, "")], now)).await?;
    until_followed(&node, &[&index.relay.url(), &newer]).await
}
