//! SIGTERM while names are being resolved.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author,
    http::{self, Connection},
    until_ok, until_true,
};
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::resolve::net::{self, Repo};

/// Resolutions under way when the node is told to stop; fewer than one peer may be asked at once.
const RESOLUTIONS: usize = 12;

#[tokio::test]
async fn every_resolution_taken_on_is_answered_by_its_outcome_and_none_is_cut() -> Result<()> {
    let mut nodes = net::start(2).await?;
    // It takes requests and answers none.
    nodes[1].signal(Signal::STOP)?;
    let owner = Author::new().npub();
    let mut connections = Vec::new();
    for n in 0..RESOLUTIONS {
        let mut connection = Connection::open(nodes[0].port()).await?;
        let path = format!("/resolve/{owner}/nobody-has-{n}");
        let accept = [("accept", "application/json")];
        connection
            .send(&http::request("GET", &path, &accept, b""))
            .await?;
        connections.push(connection);
    }
    let in_flight = format!("requests_in_flight{{route=\"resolve\"}} {RESOLUTIONS}");
    until_ok("all are under way", async || {
        let metrics = nodes[0].get("/metrics").await?.text();
        Ok(metrics.contains(&in_flight).then_some(()))
    })
    .await?;
    nodes[0].signal(Signal::TERM)?;
    for mut connection in connections {
        let response = connection.response().await.context("cut off")?;
        let answer = response.json()?;
        let code = answer["error"]["code"].as_str().unwrap_or_default();
        // The peer is silent: by then its breaker is open, or the deadline has passed.
        ensure!(
            matches!(code, "timeout" | "breaker_open"),
            "{} {answer}",
            response.status
        );
    }
    ensure!(nodes[0].wait().await?.success(), "{}", nodes[0].log());
    let log = nodes[0].log();
    ensure!(log.contains("drained resolutions"), "{log}");
    ensure!(log.contains("stopped: drained"), "{log}");
    Ok(())
}

/// Clients that ask again as soon as they are answered, and answers before the node is told to stop.
const CLIENTS: u32 = 50;
const ANSWERS: usize = 500;
/// What was sent so long before the signal had been taken on; and so long after it a connection is
/// surely read: what is sent later may cross its close.
const MARGIN: Duration = Duration::from_millis(100);

/// How a client of the load ended.
struct LastRequest {
    sent_at: Instant,
    /// The status and the code of the answer after which the node closed, or why there was none.
    answer: Result<(u16, String)>,
}

/// Asks until the node says that it closes.
async fn ask_until_closed(
    port: u16,
    from: Ipv4Addr,
    path: impl Fn(usize) -> String,
    answered: Arc<AtomicUsize>,
) -> Result<LastRequest> {
    let mut connection = Connection::open_from(from, port).await?;
    for n in 0.. {
        let sent_at = Instant::now();
        let accept = [("accept", "application/json")];
        let response = match connection.ask("GET", &path(n), &accept, b"").await {
            Ok(response) => response,
            Err(error) => {
                let answer = Err(error);
                return Ok(LastRequest { sent_at, answer });
            }
        };
        answered.fetch_add(1, Relaxed);
        let code = response.json()?["error"]["code"].clone();
        let code = code.as_str().unwrap_or_default().to_owned();
        if response.is_last() {
            let answer = Ok((response.status, code));
            return Ok(LastRequest { sent_at, answer });
        }
    }
    unreachable!("there is always a next request")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_every_request_is_answered_before_its_connection_is_closed() -> Result<()> {
    let mut nodes = net::start(2).await?;
    let repo = Repo::new()?;
    repo.0.publish(&nodes[0], 10).await?;
    repo.id(&nodes[0]).await?;
    // It takes requests and answers none.
    nodes[1].signal(Signal::STOP)?;
    let port = nodes[0].port();
    let (served, owner) = (repo.key(), Author::new().npub());
    let answered = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let from = Ipv4Addr::from_bits(Ipv4Addr::new(127, 1, 0, 1).to_bits() + client);
        let (served, owner) = (served.clone(), owner.clone());
        // Every second asks for what has to be looked for.
        let path = move |n: usize| {
            if client.is_multiple_of(2) {
                format!("/resolve/{served}")
            } else {
                format!("/resolve/{owner}/nobody-has-{client}-{n}")
            }
        };
        let answered = Arc::clone(&answered);
        clients.spawn(ask_until_closed(port, from, path, answered));
    }
    until_true("the load is there", || answered.load(Relaxed) >= ANSWERS).await?;
    let told_at = Instant::now();
    nodes[0].signal(Signal::TERM)?;
    let mut crossed = 0;
    while let Some(client) = clients.join_next().await {
        let LastRequest { sent_at, answer } = client??;
        match answer {
            Ok((status, code)) => {
                let is_outcome = matches!(status, 200 | 404 | 429 | 503 | 504);
                // Refused as one that came too late, not given up.
                let is_late = sent_at + MARGIN > told_at;
                ensure!(
                    is_outcome && (code != "canceled" || is_late),
                    "{status} {code}"
                );
            }
            Err(_) if sent_at > told_at + MARGIN => crossed += 1,
            Err(error) => return Err(error.context("a request was not answered")),
        }
    }
    println!(
        "{} answered, {crossed} crossed a close",
        answered.load(Relaxed)
    );
    ensure!(nodes[0].wait().await?.success(), "{}", nodes[0].log());
    let log = nodes[0].log();
    ensure!(log.contains("stopped: drained"), "{log}");
    Ok(())
}
