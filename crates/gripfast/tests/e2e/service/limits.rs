//! More than is taken on: refused at once, and fair to others.

use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, Response, http::Connection, until, until_ok};

use crate::BINARY;

/// The address most tests speak from, and another one of this machine.
const HERE: Ipv4Addr = Ipv4Addr::LOCALHOST;
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Settings under which loopback counts as strangers: by default it is where proxies are.
const NO_PROXY: (&str, &str) = ("GRIPFAST_TRUSTED_PROXY_CIDRS", "192.0.2.0/24");

/// A refusal has a status, a time to come back, and the one shape of all errors.
fn is_refusal(answer: &Response, code: &str) -> Result<()> {
    ensure!(answer.status == 429, "{answer:?}");
    let after = answer.header("retry-after");
    let shape = answer.json()?;
    let error = &shape["error"];
    ensure!(error["code"] == code, "{shape}");
    ensure!(
        error["retry_after_seconds"] == after.parse::<u64>()?,
        "{shape}"
    );
    ensure!(
        error["request_id"].is_string() && error["message"].is_string(),
        "{shape}"
    );
    Ok(())
}

const JSON: &[(&str, &str)] = &[("accept", "application/json")];

#[tokio::test]
async fn a_flood_of_connections_from_one_address_is_bounded_and_fair_to_another() -> Result<()> {
    let node = Node::start_with(BINARY, &[NO_PROXY]).await?;
    let (mut kept, mut served, mut refused, mut slowest) = (Vec::new(), 0, 0, Duration::ZERO);
    for _ in 0..400 {
        let mut client = Connection::open_from(HERE, node.port()).await?;
        let began = Instant::now();
        let answer = client.ask("GET", "/api/v1/sync", JSON, b"").await?;
        if answer.status == 200 {
            served += 1;
            kept.push(client);
        } else {
            slowest = slowest.max(began.elapsed());
            is_refusal(&answer, "too_many_connections")?;
            ensure!(answer.is_last(), "{answer:?}");
            refused += 1;
        }
    }
    // A connection of the start may still be counted when the first of these is.
    ensure!(
        (254..=256).contains(&served),
        "{served} served, {refused} refused"
    );
    let mut other = Connection::open_from(ELSEWHERE, node.port()).await?;
    ensure!(other.get("/api/v1/sync").await?.status == 200);
    for probe in ["/healthz", "/readyz", "/version", "/metrics"] {
        let mut client = Connection::open_from(HERE, node.port()).await?;
        let answer = client.get(probe).await?;
        ensure!(answer.status == 200, "{probe}: {answer:?}");
    }
    // Whoever has a connection goes on, and places that are given back are given out.
    ensure!(kept[0].get("/api/v1/sync").await?.status == 200);
    kept.truncate(100);
    until("places are free again", || async {
        let mut client = Connection::open_from(HERE, node.port()).await.ok()?;
        let answer = client.get("/api/v1/sync").await.ok()?;
        (answer.status == 200).then_some(())
    })
    .await?;
    println!("{served} served, {refused} refused, the slowest refusal took {slowest:?}");
    Ok(())
}

#[tokio::test]
async fn an_address_that_asks_too_often_is_told_so_and_no_other() -> Result<()> {
    let node = Node::start_with(
        BINARY,
        &[NO_PROXY, ("GRIPFAST_HTTP_REQUESTS_PER_SECOND", "5")],
    )
    .await?;
    let mut client = Connection::open_from(HERE, node.port()).await?;
    let (mut served, mut refused) = (0, 0);
    for _ in 0..90 {
        let answer = client.ask("GET", "/api/v1/tasks", JSON, b"").await?;
        match answer.status {
            200 => served += 1,
            _ => {
                is_refusal(&answer, "rate_limited")?;
                refused += 1;
            }
        }
    }
    ensure!(
        served >= 50 && refused >= 10,
        "{served} served, {refused} refused"
    );
    for probe in ["/healthz", "/readyz", "/version"] {
        ensure!(client.get(probe).await?.status == 200, "{probe}");
    }
    let mut other = Connection::open_from(ELSEWHERE, node.port()).await?;
    ensure!(other.get("/api/v1/tasks").await?.status == 200);
    let metrics = other.get("/metrics").await?.text();
    let counted = format!("rejected_total{{reason=\"requests_per_ip\"}} {refused}");
    ensure!(metrics.contains(&counted), "{counted}");
    Ok(())
}

#[tokio::test]
async fn when_all_pushes_are_taken_the_next_is_told_so_and_other_routes_answer() -> Result<()> {
    let node = Node::start_with(BINARY, &[("GRIPFAST_MAX_PUSHES", "4")]).await?;
    let local = LocalProject::new("x")?;
    local.announce(&node, 0).await?;
    let push = local.push_request().await?;
    let mut stalled = Vec::new();
    for _ in 0..2 {
        let mut client = Connection::open(node.port()).await?;
        client.send(&push[..push.len() - 20]).await?;
        stalled.push(client);
    }
    let taken = "requests_in_flight{route=\"push\"} 2";
    until_ok("both slots are taken", async || {
        Ok(node.get("/metrics").await?.contains(taken).then_some(()))
    })
    .await?;
    let mut third = Connection::open(node.port()).await?;
    third.send(&push).await?;
    // Git shows a refusal only where it comes as part of its own protocol.
    let busy = third.response().await?;
    busy.must_be(200, &["busy"]);
    ensure!(!busy.header("retry-after").is_empty(), "{busy:?}");
    let mut other = Connection::open(node.port()).await?;
    for path in ["/", "/api/v1/tasks", "/healthz"] {
        ensure!(other.get(path).await?.status == 200, "{path}");
    }
    let metrics = other.get("/metrics").await?.text();
    ensure!(metrics.contains("busy_rejections_total{route=\"push\"} 1"));
    Ok(())
}

#[tokio::test]
async fn sockets_are_tuned_and_as_many_as_allowed_may_be_open() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", node.id()?))?;
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let columns: Vec<&str> = line.context("a limit")?.split_whitespace().collect();
    ensure!(columns[3] == columns[4], "soft is hard: {line:?}");
    let wanted = format!("{:04X}", node.port());
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", node.id()?))?;
    let listens = |line: &&str| line.contains(&format!(":{wanted} 00000000:0000 0A"));
    ensure!(table.lines().any(|line| listens(&line)), "it listens");
    Ok(())
}
