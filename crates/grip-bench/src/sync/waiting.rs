//! Cost of very many waiting identifiers: while none is due, and when all are at once.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};
use grip_testkit::{Author, Project, RemoteHost, remote::Behaviour};
use nostr::prelude::Event;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    events::send_all,
    fixture::Fixture,
    report::{Table, mib, percentile},
};

/// Room for all of them.
const ROOM: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("GRIPFAST_PURGATORY_MAX_ENTRIES", "1000000"),
    ("GRIPFAST_PURGATORY_MAX_BYTES", "4 GiB"),
    ("GRIPFAST_PURGATORY_MAX_PER_AUTHOR", "1000000"),
    ("GRIPFAST_PURGATORY_LIFETIME", "6h"),
];

const DUE: usize = 10_000;
const HOSTS: u8 = 20;

/// Announcements and states of so many identifiers, whose data is at `urls` in turn.
fn events(fixture: &Fixture, count: usize, urls: &[String]) -> (Vec<Event>, Vec<Event>) {
    let missing = "5".repeat(40);
    // One author for many: what a person may hold is not what is measured.
    let owner = Author::new();
    let project = |n: usize| {
        let project = Project {
            owner: owner.clone(),
            identifier: format!("waiting-{n}"),
        };
        let announcement = project.announcement(&[&fixture.node], &[urls[n % urls.len()].clone()]);
        (
            announcement,
            project.state(&[("refs/heads/main", &missing)]),
        )
    };
    (0..count).map(project).unzip()
}

/// So many identifiers whose time has not come.
pub async fn none_due(binary: &Path, count: usize, table: &mut Table) -> Result<()> {
    const WATCHED: Duration = Duration::from_secs(30);
    let env = [ROOM, &[("NGIT_SYNC_DEFAULT_DELAY_SECS", "80000")]].concat();
    let fixture = Fixture::with(binary, &env).await?;
    let urls = ["https://git.example.com/x.git".to_owned()];
    let (announcements, states) = events(&fixture, count, &urls);
    let empty = fixture.node.anonymous_rss_bytes()?;
    send_all(&fixture.node, &announcements, 4, 64).await?;
    let announced = fixture.node.anonymous_rss_bytes()?;
    send_all(&fixture.node, &states, 4, 64).await?;
    let status = status(&fixture).await?;
    ensure!(status["queue_length"] == count, "{status}");
    let cpu = fixture.cpu_seconds()?;
    tokio::time::sleep(WATCHED).await;
    let share = (fixture.cpu_seconds()? - cpu) / WATCHED.as_secs_f64() * 100.0;
    let full = fixture.node.anonymous_rss_bytes()?;
    let above = |bytes: u64| mib(full.saturating_sub(bytes));
    table.row(
        &format!("{count} waiting identifiers, none due"),
        format!(
            "{share:.2} % of a core; {} above their announcements alone, {} above an empty node",
            above(announced),
            above(empty)
        ),
        "0",
        None,
        "–",
    );
    Ok(())
}

async fn status(fixture: &Fixture) -> Result<Value> {
    fixture.node.json("/api/v1/sync?limit=1").await
}

/// Very many identifiers whose time has come, all at once.
pub async fn all_due(binary: &Path, table: &mut Table) -> Result<()> {
    let env = [
        ROOM,
        &[
            ("NGIT_SYNC_DEFAULT_DELAY_SECS", "0"),
            ("GRIPFAST_SYNC_ENABLED", "false"),
        ],
    ]
    .concat();
    let mut fixture = Fixture::with(binary, &env).await?;
    let mut hosts = Vec::new();
    for n in 1..=HOSTS {
        let host = RemoteHost::start(&format!("127.0.1.{n}")).await?;
        host.behave(Behaviour::status(404));
        hosts.push(host);
    }
    let urls: Vec<_> = hosts.iter().map(|host| host.clone_url("x.git")).collect();
    let (announcements, states) = events(&fixture, DUE, &urls);
    send_all(&fixture.node, &announcements, 4, 64).await?;
    send_all(&fixture.node, &states, 4, 64).await?;
    relaunch(&mut fixture, "false").await?;
    let idle = latency(&fixture, async |_| Ok(false)).await?;
    // After a while without sync everything is due when it comes back.
    relaunch(&mut fixture, "true").await?;
    let busy = latency(&fixture, async |fixture| {
        Ok(status(fixture).await?["attempts_total"].as_u64() >= Some(DUE as u64))
    })
    .await?;
    ensure!(busy.is_over, "not all were looked at in {SPAN:?}");
    table.row(
        &format!("{DUE} identifiers due at once on {HOSTS} hosts: a stranger's query meanwhile"),
        format!(
            "{:.2} ms p99, {:.2} ms p50; all begun in {:.0} s",
            busy.p99, busy.p50, busy.seconds
        ),
        &format!("idle {:.2} ms p99, {:.2} ms p50", idle.p99, idle.p50),
        Some(busy.p99 / idle.p99),
        "–",
    );
    Ok(())
}

async fn relaunch(fixture: &mut Fixture, sync_enabled: &str) -> Result<()> {
    ensure!(fixture.node.stop().await?.success());
    fixture.node.set_env("GRIPFAST_SYNC_ENABLED", sync_enabled);
    fixture.node.launch().await
}

/// How long latency is watched at most.
const SPAN: Duration = Duration::from_secs(20);

struct Latency {
    p50: f64,
    p99: f64,
    seconds: f64,
    is_over: bool,
}

/// Delays of queries by somebody who has nothing to do with it, until `is_over`.
async fn latency(
    fixture: &Fixture,
    is_over: impl AsyncFn(&Fixture) -> Result<bool>,
) -> Result<Latency> {
    let mut stranger = fixture.node.connect().await?;
    let mut waits = Vec::new();
    let began = Instant::now();
    let mut looked = began;
    let mut over = false;
    while !over && began.elapsed() < SPAN {
        let asked = Instant::now();
        stranger
            .query(&[json!({"kinds": [30617], "limit": 1})])
            .await?;
        waits.push(asked.elapsed().as_secs_f64() * 1e3);
        if looked.elapsed() > Duration::from_millis(500) {
            looked = Instant::now();
            over = is_over(fixture).await?;
        }
    }
    Ok(Latency {
        p50: percentile(&mut waits, 0.5),
        p99: percentile(&mut waits, 0.99),
        seconds: began.elapsed().as_secs_f64(),
        is_over: over,
    })
}
