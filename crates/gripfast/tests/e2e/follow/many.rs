//! Many repositories on two nodes and many relays: what a second reading transfers, what following
//! costs while nothing happens, and how soon a push is served by the other node.

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use grip_testkit::{
    Author, FakeRelay, LocalProject, Node, Project, WorkTree, clock_off_by, events::tag, until_ok,
    while_advancing,
};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::scene::{announce, node_with, publish, relays, served};

/// Sizes of the short form.
const REPOSITORIES: usize = 8;
const EVENTS: usize = 600;
const RELAYS: usize = 4;
const IDLE_SECONDS: usize = 3;
const PUSHES: usize = 3;

/// How long nothing may advance in the long form.
const STALLED: Duration = Duration::from_secs(180);
/// What following may add to the memory of the node, and the share of a core that it may use.
const MAX_MORE_BYTES: i64 = 64 << 20;
const MAX_CORE: f64 = 0.02;
/// How long data of an event from another relay is awaited by default, and what may come to that and
/// to the fetch: the event's way, its release, and looking for it here.
const DELAY: Duration = Duration::from_millis(500);
const MAX_BEYOND: Duration = Duration::from_millis(250);

fn amount(name: &str, short: usize) -> usize {
    let chosen = env::var(format!("GRIPFAST_FOLLOW_{name}")).ok();
    chosen.and_then(|n| n.parse().ok()).unwrap_or(short)
}

/// Bytes that a node has exchanged with one relay.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    received: u64,
    sent: u64,
}

async fn relay_of(node: &Node, url: &str) -> Result<Value> {
    let found = relays(node)
        .await?
        .into_iter()
        .find(|it| it["relay"] == url);
    found.with_context(|| format!("{url} is not followed"))
}

fn bytes_of(relay: &Value) -> Bytes {
    let of = |name: &str| relay[name].as_u64().unwrap_or_default();
    Bytes {
        received: of("bytes_received"),
        sent: of("bytes_sent"),
    }
}

async fn events(node: &Node) -> Result<u64> {
    let status = node.json("/api/v1/status").await?;
    status["events"].as_u64().context("no number of events")
}

/// Publishes a project on `a` and pushes it there. It lists `b` and two of the other relays, too.
async fn host(
    n: usize,
    tree: &WorkTree,
    [a, b]: [&Node; 2],
    others: &[FakeRelay],
) -> Result<Project> {
    let project = Project::new(&format!("tides-{n}"));
    let mut relays = vec!["relays".to_owned(), a.relay_url(), b.relay_url()];
    relays.extend((0..2).map(|more| others[(n + more) % others.len()].url()));
    let tags = vec![
        tag(["d", &project.identifier]),
        tag(["clone".to_owned(), project.url(a), project.url(b)]),
        tag(relays),
    ];
    publish(a, &project.owner.sign(30617, "", tags)).await?;
    let tip = tree.tip("HEAD")?;
    publish(a, &project.state(&[("refs/heads/main", &tip)])).await?;
    tree.push_ok(&project.url(a), &["main"]).await?;
    Ok(project)
}

/// Publishes as many events on `a`, each about one of the projects: an issue or an answer to one.
async fn talk(a: &Node, projects: &[Project], count: usize) -> Result<()> {
    let (reporter, other) = (Author::new(), Author::new());
    let mut relay = a.connect().await?;
    let mut issues: Vec<Option<Event>> = vec![None; projects.len()];
    let all: Vec<Event> = (0..count)
        .map(|n| {
            let (at, project) = (n % projects.len(), &projects[n % projects.len()]);
            let round = n / projects.len();
            match &issues[at] {
                Some(issue) if !round.is_multiple_of(3) => other.comment(issue, &n.to_string()),
                _ => {
                    let owner = &project.owner;
                    let issue = reporter.issue(owner, &project.identifier, &n.to_string());
                    issues[at] = Some(issue.clone());
                    issue
                }
            }
        })
        .collect();
    for part in all.chunks(200) {
        for event in part {
            relay.send(json!(["EVENT", event])).await?;
        }
        for event in part {
            let answer = relay.answer(&event.id).await?;
            ensure!(answer.accepted, "{answer:?}");
        }
    }
    Ok(())
}

/// Waits until all relays of `node` were read, so many beside the first.
async fn until_read(node: &Node, others: usize) -> Result<()> {
    while_advancing("the other relays", STALLED, async || {
        let all = relays(node).await?;
        let is_read = |it: &&Value| it["is_reading_history"] == false && it["full_at"].is_i64();
        let read = all.iter().filter(is_read).count();
        let messages = all.iter().filter_map(|it| it["messages"].as_u64());
        Ok((read <= others).then_some(messages.sum::<u64>()))
    })
    .await
}

/// Prints one row of the table of figures.
fn row(what: &str, first: &str, second: &str, target: &str) {
    println!("{what:<28} {first:>16} {second:>20} {target:>16}");
}

fn percent(part: u64, of: u64) -> f64 {
    part as f64 * 100.0 / of as f64
}

#[tokio::test]
async fn a_second_reading_of_many_repositories_transfers_less_than_a_percent_both_ways()
-> Result<()> {
    let repositories = amount("REPOSITORIES", REPOSITORIES);
    let count = amount("EVENTS", EVENTS);
    let is_long = repositories > REPOSITORIES;
    // It serves, and follows nobody; one client publishes for all.
    let a = node_with(&[
        ("GRIPFAST_SYNC_ENABLED", "false"),
        ("GRIPFAST_RELAY_EVENTS_PER_SECOND", "100000"),
    ])
    .await?;
    let mut b = node_with(&[("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &a.relay_url())]).await?;
    b.kill();
    let mut others = Vec::new();
    for n in 0..amount("RELAYS", RELAYS) {
        let empty = |message: &Value| match message[0].as_str() {
            Some("REQ") => vec![json!(["EOSE", message[1]])],
            Some("NEG-OPEN") => vec![json!(["NOTICE", "ERROR: bad msg: unknown cmd"])],
            _ => Vec::new(),
        };
        let address = format!("127.0.1.{}", n + 1);
        others.push(FakeRelay::start(&address, Arc::new(empty)).await?);
    }
    let tree = WorkTree::with_commit()?;
    let hosting = (0..repositories).map(|n| host(n, &tree, [&a, &b], &others));
    let projects: Vec<Project> = stream::iter(hosting)
        .buffer_unordered(4)
        .try_collect()
        .await?;
    talk(&a, &projects, count.saturating_sub(2 * repositories)).await?;
    let expected = events(&a).await?;
    println!("{expected} events of {repositories} repositories");
    let began = Instant::now();
    b.launch().await?;
    let url = a.relay_url();
    while_advancing("the first reading", STALLED, async || {
        let here = events(&b).await?;
        let relay = relay_of(&b, &url).await.unwrap_or_default();
        let is_read = relay["is_reading_history"] == false && relay["history_by"] == "everything";
        let messages = relay["messages"].as_u64().unwrap_or_default();
        Ok((here < expected || !is_read).then_some(here + messages))
    })
    .await
    .with_context(|| format!("log:\n{}", b.log()))?;
    let first = bytes_of(&relay_of(&b, &url).await?);
    println!("first reading: {first:?} after {:?}", began.elapsed());
    until_read(&b, others.len()).await?;
    // Two days later everything is read again.
    b.kill();
    for (name, value) in clock_off_by(2 * 86_400)? {
        b.set_env(&name, &value);
    }
    b.launch().await?;
    while_advancing("the second reading", STALLED, async || {
        let relay = relay_of(&b, &url).await.unwrap_or_default();
        let now = nostr::prelude::Timestamp::now().as_secs() * 1_000;
        let full_at = relay["full_at"].as_u64().unwrap_or_default();
        let is_read = relay["is_reading_history"] == false && full_at > now + 86_400_000;
        Ok((!is_read).then(|| relay["messages"].as_u64().unwrap_or_default()))
    })
    .await?;
    let relay = relay_of(&b, &url).await?;
    let second = bytes_of(&relay);
    println!("second reading: {second:?}");
    ensure!(relay["events_received"] == 0, "{relay}");
    ensure!(
        second.received * 100 < first.received,
        "{first:?}; {second:?}"
    );
    ensure!(second.sent * 100 < first.sent, "{first:?}; {second:?}");
    until_read(&b, others.len()).await?;
    // Nothing happens.
    let idle = Duration::from_secs(amount("IDLE_SECONDS", IDLE_SECONDS) as u64);
    let core = b.core_used(idle).await?;
    let following = b.anonymous_rss_bytes()? as i64;
    b.kill();
    b.set_env("GRIPFAST_SYNC_ENABLED", "false");
    b.launch().await?;
    let same = until_ok("it serves the same", async || {
        Ok((events(&b).await? == expected).then_some(()))
    });
    same.await?;
    let core_alone = b.core_used(idle).await?;
    let more = following - b.anonymous_rss_bytes()? as i64;
    let relays = others.len() + 1;
    println!("\n{expected} events of {repositories} repositories on {relays} relays:");
    row("what", "first reading", "second reading", "target");
    for (what, first, second) in [
        ("bytes received", first.received, second.received),
        ("bytes sent", first.sent, second.sent),
    ] {
        let again = format!("{second} ({:.3} %)", percent(second, first));
        row(what, &first.to_string(), &again, "below 1 %");
    }
    row("idle", "following", "the node alone", "target");
    let share = |core: f64| format!("{:.2} %", core * 100.0);
    row(
        "share of a core",
        &share(core),
        &share(core_alone),
        "below 2 %",
    );
    let kib = |bytes: i64| format!("{} KiB", bytes >> 10);
    let (with, alone) = (kib(following), kib(following - more));
    row("memory", &with, &alone, "64 MiB more");
    ensure!(more < MAX_MORE_BYTES, "{more} bytes");
    ensure!(!is_long || core < MAX_CORE, "{core}");
    Ok(())
}

#[tokio::test]
async fn pushes_to_one_node_are_served_by_the_other_within_two_seconds() -> Result<()> {
    let pushes = amount("PUSHES", PUSHES);
    // All else is as it is by default.
    let near = [("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true")];
    let a = Node::start_with(crate::BINARY, &near).await?;
    let b = Node::start_with(crate::BINARY, &near).await?;
    let mut project = LocalProject::new("tides")?;
    announce(&project, &[&a, &b]).await?;
    let mut took = Vec::new();
    // A host is asked so often a minute: people do not push more often either.
    let mut pace = tokio::time::interval(Duration::from_secs(3));
    for n in 0..=pushes {
        project.tip = project.tree.commit("more", &n.to_string())?;
        let state = project.state((pushes - n) as u64);
        publish(&a, &state).await?;
        pace.tick().await;
        project.push(&a).await?;
        let began = Instant::now();
        served(&b, &state).await?;
        // The first one finds nothing subscribed to yet.
        if n > 0 {
            took.push(began.elapsed());
        }
    }
    took.sort();
    let of = |percent: usize| took[(took.len() - 1) * percent / 100];
    let fetch = median_fetch(&b).await?;
    let (p50, p99, added) = (of(50), of(99), of(50).saturating_sub(DELAY + fetch));
    println!();
    row("pushes", "p50", "p99", "target of p99");
    let ms = |it: Duration| format!("{} ms", it.as_millis());
    row(&pushes.to_string(), &ms(p50), &ms(p99), "below 2 s");
    row("of p50", "the fetch", "beyond delay, fetch", "target");
    row("", &ms(fetch), &ms(added), "below 250 ms");
    ensure!(p50 < Duration::from_secs(2), "{took:?}");
    // A machine that runs other tests at the same time says nothing of the slowest one.
    let is_long = pushes > PUSHES;
    ensure!(!is_long || p99 < Duration::from_secs(2), "{took:?}");
    ensure!(!is_long || added < MAX_BEYOND, "{took:?}");
    Ok(())
}

/// How long the fetches of a node took that brought something.
async fn median_fetch(node: &Node) -> Result<Duration> {
    let status = node.json("/api/v1/sync").await?;
    let tried = status["tried"].as_array().context("no attempts")?;
    let fetched = tried.iter().filter(|it| it["is_success"] == true);
    let mut took: Vec<u64> = fetched
        .filter_map(|it| it["duration_ms"].as_u64())
        .collect();
    took.sort_unstable();
    let median = took.get(took.len() / 2).context("nothing was fetched")?;
    Ok(Duration::from_millis(*median))
}
