//! Many events at once: as few requests as there are repositories, and no host waits for another.

use std::{pin::pin, time::Duration};

use anyhow::{Result, ensure};
use grip_testkit::{
    Author, Node, Project, RelayClient, RemoteHost, WorkTree, remote::Behaviour, until_true,
};
use nostr::prelude::Event;
use serde_json::json;
use tokio::{
    select,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::sync::scene::Scene;

const IDENTIFIERS: usize = 100;
const PULL_REQUESTS: usize = 9;
const CONNECTIONS: usize = 20;
/// What arrives together is fetched together: longer than all of it is published for on a busy machine.
const DELAY: Duration = Duration::from_secs(8);
/// Requests that one host may have at once.
const PERMITS: usize = 5;
/// No request of the burst may wait for longer while its host has a free permit.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Publishes each list on a connection of its own, without waiting between events.
async fn publish(node: &Node, lists: Vec<Vec<Event>>) -> Result<()> {
    let mut publishing = JoinSet::new();
    for events in lists {
        publishing.spawn(publish_all(node.connect().await?, events));
    }
    while let Some(done) = publishing.join_next().await {
        done??;
    }
    Ok(())
}

async fn publish_all(mut relay: RelayClient, events: Vec<Event>) -> Result<()> {
    for event in &events {
        relay.send(json!(["EVENT", event])).await?;
    }
    for event in &events {
        let answer = relay.answer(&event.id).await?;
        ensure!(answer.accepted, "{answer:?}");
    }
    Ok(())
}

/// How often the burst is made: once, or as often as `cargo xtask campaign burst` says.
fn runs() -> usize {
    let chosen = std::env::var("GRIPFAST_BURST_RUNS").ok();
    chosen.and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// Waits until so many events are served, and returns the longest time for which one of the
/// `IDENTIFIERS` requests was due and not made although the host had a free permit.
async fn longest_pause(
    scene: &mut Scene,
    host: &RemoteHost,
    kinds: &[u16],
    served: usize,
) -> Result<Duration> {
    let mut serving = pin!(scene.has_served(kinds, served));
    let (mut requests, mut longest) = (0, Duration::ZERO);
    let mut busy_until = Instant::now() + DELAY;
    loop {
        select! {
            done = &mut serving => break done?,
            () = sleep(Duration::from_millis(5)) => {}
        }
        let (now, count) = (Instant::now(), host.fetches().len());
        if count > requests || host.in_flight() >= PERMITS || count >= IDENTIFIERS {
            requests = count;
            busy_until = busy_until.max(now);
        }
        longest = longest.max(now.saturating_duration_since(busy_until));
    }
    ensure!(
        longest <= MAX_PAUSE,
        "nothing was asked for {longest:?} while permits were free"
    );
    Ok(longest)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_costs_one_request_per_identifier_and_url() -> Result<()> {
    for run in 1..=runs() {
        let pauses = burst().await?;
        println!("run {run}: longest pauses with free permits {pauses:?}");
    }
    Ok(())
}

/// Repositories and then pull requests arrive at once; returns the longest pause of each.
async fn burst() -> Result<[Duration; 2]> {
    let mut scene = Scene::with(&[
        ("NGIT_SYNC_DEFAULT_DELAY_SECS", &DELAY.as_secs().to_string()),
        ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "1000"),
        ("GRIPFAST_PURGATORY_MAX_PER_AUTHOR", "2000"),
    ])
    .await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    host.host(&tree, "all.git")?;
    // Pull requests are taken for repositories that are served.
    let mut projects = Vec::new();
    let mut lists = vec![Vec::new(); CONNECTIONS];
    for n in 0..IDENTIFIERS {
        let project = Project::new(&format!("burst-{n}"));
        let url = host.alias("all.git", &format!("{n}.git"))?;
        let first = project.state_at(&[("refs/heads/main", &tree.tip("main")?)], 100);
        lists[n % CONNECTIONS]
            .push(project.announcement(&[&scene.node], std::slice::from_ref(&url)));
        lists[n % CONNECTIONS].push(first);
        projects.push((project, url));
    }
    publish(&scene.node, lists).await?;
    let first_pause = longest_pause(&mut scene, &host, &[30618], IDENTIFIERS).await?;
    let fetches = host.fetches();
    ensure!(fetches.len() == IDENTIFIERS, "{} requests", fetches.len());
    host.forget();

    let main = tree.commit("more", "1")?;
    let mut tips = Vec::new();
    for n in 0..PULL_REQUESTS {
        tree.git(["checkout", "-q", "-b", &format!("fix-{n}"), "main"])?;
        tips.push(tree.commit("fix", &n.to_string())?);
    }
    host.take(&tree, "all.git", &["refs/heads/*:refs/heads/*"])?;
    let contributors: Vec<_> = tips.iter().map(|_| Author::new()).collect();
    let mut lists = vec![Vec::new(); CONNECTIONS];
    for (n, (project, url)) in projects.iter().enumerate() {
        let events = &mut lists[n % CONNECTIONS];
        events.push(project.state(&[("refs/heads/main", &main)]));
        let requests = contributors.iter().zip(&tips);
        events.extend(requests.map(|(contributor, tip)| {
            contributor.pull_request(&project.owner, &project.identifier, tip, url)
        }));
    }
    publish(&scene.node, lists).await?;
    let requests = IDENTIFIERS * PULL_REQUESTS;
    let second_pause = longest_pause(&mut scene, &host, &[1618], requests).await?;
    let ended = |event: &Event| json!(event).to_string().contains(&main);
    let states = scene.relay.query(&[json!({"kinds": [30618]})]).await?;
    ensure!(states.iter().filter(|state| ended(state)).count() == IDENTIFIERS);

    let fetches = host.fetches();
    ensure!(fetches.len() == IDENTIFIERS, "{} requests", fetches.len());
    for n in 0..IDENTIFIERS {
        let name = format!("{n}.git");
        let asked: Vec<_> = fetches.iter().filter(|it| it.repository == name).collect();
        let whole = asked.len() == 1 && asked[0].wants.len() == 1 + PULL_REQUESTS;
        ensure!(whole, "{asked:?}");
    }
    let most = host.max_in_flight();
    ensure!(most <= PERMITS, "{most} requests at once");
    Ok([first_pause, second_pause])
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_refuse_hang_or_are_dead_do_not_delay_the_healthy() -> Result<()> {
    const HEALTHY: usize = 20;
    let mut scene = Scene::with(&[
        // Far fewer than there are repositories on the hanging host.
        ("GRIPFAST_SYNC_MAX_TASKS", "12"),
        ("GRIPFAST_PURGATORY_MAX_PER_AUTHOR", "2000"),
    ])
    .await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let well = RemoteHost::start("127.0.0.2").await?;
    well.host(&tree, "all.git")?;
    let limited = RemoteHost::start("127.0.0.3").await?;
    limited.behave(Behaviour::retry_after(429, 3_600));
    let hanging = RemoteHost::start("127.0.0.4").await?;
    hanging.behave(Behaviour::HangBeforeHeaders);
    let dead = RemoteHost::start("127.0.0.5").await?.clone_url("x.git");

    let mut sick = Vec::new();
    let mut healthy = Vec::new();
    for n in 0..60 {
        let urls = match n % 6 {
            0 => vec![limited.clone_url(&format!("{n}.git"))],
            1 => vec![dead.clone()],
            _ => vec![hanging.clone_url(&format!("{n}.git"))],
        };
        let project = Project::new(&format!("sick-{n}"));
        sick.push(project.announcement(&[&scene.node], &urls));
        sick.push(project.state(&[("refs/heads/main", &tip)]));
    }
    for n in 0..HEALTHY {
        let url = well.alias("all.git", &format!("{n}.git"))?;
        let mut urls = vec![url];
        // Half of them list a host that refuses or is dead before the one that is well.
        match n % 4 {
            0 => urls.insert(0, dead.clone()),
            2 => urls.insert(0, limited.clone_url(&format!("also-{n}.git"))),
            _ => {}
        }
        let project = Project::new(&format!("well-{n}"));
        healthy.push(project.announcement(&[&scene.node], &urls));
        healthy.push(project.state(&[("refs/heads/main", &tip)]));
    }
    publish(&scene.node, vec![sick]).await?;
    until_true("the hanging host holds all it may", || {
        hanging.in_flight() == 5
    })
    .await?;
    publish(&scene.node, vec![healthy]).await?;
    scene.has_served(&[30618], HEALTHY).await?;

    let fetches = well.fetches().len();
    ensure!(fetches == HEALTHY, "{fetches} requests");
    // All this while the hanging host was asked five times and has answered none of them.
    ensure!(hanging.in_flight() == 5 && hanging.count() == 5);
    // The first to be refused may be several at once; then there is silence.
    ensure!((1..=5).contains(&limited.count()), "{}", limited.count());
    Ok(())
}
