//! The health of followed relays: when one counts as dead, faulty or well again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    FakeRelay, LocalProject, Node, RemoteHost, clock_off_by, fake_relay::honest, until_ok,
};
use nostr::prelude::Timestamp;
use serde_json::{Value, json};

use super::{
    hostile::host_with_all,
    scene::{node, node_with, relays, until_relay},
};

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// What a busy machine may be late by.
const LATE: i64 = 60;

/// Starts a node again with a clock that is ahead.
async fn restart_after(node: &mut Node, seconds: i64) -> Result<()> {
    node.kill();
    for (name, value) in clock_off_by(seconds)? {
        node.set_env(&name, &value);
    }
    node.launch().await
}

/// In how many seconds a relay is dialled next, by a clock that is ahead by so many.
fn next_in(relay: &Value, ahead: i64) -> Option<i64> {
    let now = Timestamp::now().as_secs() as i64 + ahead;
    Some(relay["next_attempt"].as_i64()? / 1_000 - now)
}

async fn dials(node: &Node) -> Result<u64> {
    let metrics = node.get("/metrics").await?.text();
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("ngit_sync_connection_attempts"));
    let value = line.and_then(|line| line.rsplit(' ').next());
    Ok(value.context("the metric")?.parse()?)
}

/// The address of a port that nobody listens on any more.
async fn closed_port(address: &str) -> Result<String> {
    let listener = tokio::net::TcpListener::bind((address, 0)).await?;
    Ok(format!("ws://{}", listener.local_addr()?))
}

#[tokio::test]
async fn g02_40_after_a_day_without_success_a_relay_is_dead_and_dialled_once_a_day() -> Result<()> {
    let mut node = node().await?;
    let project = LocalProject::new("tides")?;
    let url = closed_port("127.0.3.1").await?;
    host_with_all(&project, &node, std::slice::from_ref(&url)).await?;
    // Its pauses are of a second.
    until_ok("it is dialled again and again", async || {
        Ok((dials(&node).await? > 1).then_some(()))
    })
    .await?;
    until_relay(&node, "it fails", |relay| relay["health"] == "disconnected").await?;
    for days in 1..=2 {
        let ahead = days * (DAY + LATE);
        restart_after(&mut node, ahead).await?;
        let dead = until_relay(&node, "it is dead", |relay| {
            relay["health"] == "dead" && next_in(relay, ahead) > Some(DAY - LATE)
        })
        .await?;
        ensure!(next_in(&dead, ahead) <= Some(DAY), "{dead}");
        ensure!(dials(&node).await? == 1, "once a day");
    }
    Ok(())
}

/// A name that leads nowhere, a port without TLS, and a server that is no relay.
#[tokio::test]
async fn g02_41_what_is_no_relay_is_left_alone_for_twelve_hours_or_as_the_setting_says()
-> Result<()> {
    let mut node = node().await?;
    let project = LocalProject::new("tides")?;
    let plain = FakeRelay::with_events("127.0.3.2", Vec::new()).await?;
    let page = RemoteHost::start("127.0.3.3").await?;
    let urls = [
        "ws://nowhere.example".to_owned(),
        plain.url().replace("ws://", "wss://"),
        format!("ws://{}", page.authority()),
    ];
    host_with_all(&project, &node, &urls).await?;
    let left_alone = async |node: &Node, ahead: i64, hours: i64| {
        for url in &urls {
            let time = hours * HOUR;
            let shown = until_relay(node, "it is left alone", |relay| {
                relay["relay"] == url.as_str() && next_in(relay, ahead) > Some(time - LATE)
            })
            .await?;
            ensure!(next_in(&shown, ahead) <= Some(time), "{shown}");
        }
        anyhow::Ok(())
    };
    left_alone(&node, 0, 12).await?;
    let asked = page.count();
    ensure!(asked > 0);
    // Not by the next start either.
    restart_after(&mut node, 11 * HOUR).await?;
    left_alone(&node, 0, 12).await?;
    ensure!(dials(&node).await? == 0 && page.count() == asked);
    node.set_env("NGIT_NAUGHTY_LIST_EXPIRATION_HOURS", "2");
    restart_after(&mut node, 13 * HOUR).await?;
    left_alone(&node, 13 * HOUR, 2).await?;
    ensure!(page.count() > asked);
    Ok(())
}

/// Neither a new connection nor a start makes it healthy before.
#[tokio::test]
async fn g02_46_a_relay_whose_history_failed_is_healthy_again_only_after_a_whole_one() -> Result<()>
{
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let script = move |message: &Value| {
        let is_history = message[0] == "REQ" && message[2]["limit"] != 0;
        if is_history && broken.load(Ordering::Relaxed) {
            return vec![json!(["CLOSED", message[1], "error: out of order"])];
        }
        honest(message, &[])
    };
    let relay = FakeRelay::start("127.0.3.4", Arc::new(script)).await?;
    let mut node = node_with(&[("NGIT_SYNC_DISABLE_NEGENTROPY", "true")]).await?;
    let project = LocalProject::new("tides")?;
    host_with_all(&project, &node, &[relay.url()]).await?;
    let is_degraded = |relay: &Value| relay["health"] == "degraded" && relay["full_at"].is_null();
    until_relay(&node, "its history failed", is_degraded).await?;
    // Whatever it is by now: it is not asked before the pause is over.
    is_broken.store(false, Ordering::Relaxed);
    let connected = relay.connected().len();
    node.crash_and_restart().await?;
    until_ok("it is connected again", async || {
        Ok((relay.connected().len() > connected).then_some(()))
    })
    .await?;
    let shown = until_relay(&node, "it is shown as connected", |relay| {
        !["disconnected", "dead"].contains(&relay["health"].as_str().unwrap_or_default())
    })
    .await?;
    ensure!(is_degraded(&shown), "{shown}");
    restart_after(&mut node, 120).await?;
    until_relay(&node, "all of it was read", |relay| {
        relay["health"] == "healthy" && relay["full_at"].is_i64()
    })
    .await?;
    ensure!(relays(&node).await?.len() == 1);
    Ok(())
}
