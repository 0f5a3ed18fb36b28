//! SIGTERM while requests are under way.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use grip_testkit::{
    LocalProject, Node,
    http::{Connection, must_contain},
    until_ok, until_true,
};
use rustix::process::Signal;

use crate::BINARY;

const CLIENTS: usize = 16;

/// What became of the requests that were sent.
#[derive(Default)]
struct Tally {
    served: AtomicU64,
    refused: AtomicU64,
}

/// Asks until nobody listens any more. A request on a connection that was answered before must be
/// answered too; a new connection may be refused in any way.
async fn ask_to_the_end(port: u16, tally: &Tally) -> Result<()> {
    'connections: while let Ok(mut client) = Connection::open(port).await {
        for turn in 0.. {
            let path = ["/", "/api/v1/sync", "/index?limit=1"][turn % 3];
            let answer = match client.get(path).await {
                Ok(answer) => answer,
                Err(_) if turn == 0 => continue 'connections,
                Err(error) => return Err(error.context(format!("request {turn}: {path}"))),
            };
            match answer.status {
                200 => tally.served.fetch_add(1, Ordering::Relaxed),
                429 | 503 => {
                    ensure!(!answer.header("retry-after").is_empty(), "{answer:?}");
                    tally.refused.fetch_add(1, Ordering::Relaxed)
                }
                _ => bail!("{path}: {answer:?}"),
            };
            if answer.is_last() {
                continue 'connections;
            }
        }
    }
    Ok(())
}

/// A node with an announced repository, and a push to it: the head and the rest.
async fn with_push(env: &[(&str, &str)]) -> Result<(Node, Vec<u8>, Vec<u8>)> {
    let node = Node::start_with(BINARY, env).await?;
    let local = LocalProject::new("x")?;
    local.announce(&node, 0).await?;
    let mut head = local.push_request().await?;
    let rest = head.split_off(head.len() - 20);
    Ok((node, head, rest))
}

async fn pushes_under_way(node: &Node) -> Result<()> {
    let line = "requests_in_flight{route=\"push\"} 1";
    until_ok("the push is under way", async || {
        Ok(node.get("/metrics").await?.contains(line).then_some(()))
    })
    .await
}

/// Asks the probes on new connections until nobody listens; returns how often both answered.
async fn probe_to_the_end(port: u16, answered: &AtomicU64) -> Result<()> {
    loop {
        let Ok(mut client) = Connection::open(port).await else {
            return Ok(());
        };
        let Ok(ready) = client.get("/readyz").await else {
            continue;
        };
        ready.must_be(503, &["draining"]);
        let Ok(mut client) = Connection::open(port).await else {
            return Ok(());
        };
        if let Ok(health) = client.get("/healthz").await {
            ensure!(health.status == 200, "{health:?}");
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn last_line(node: &Node) -> String {
    node.log().lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_stop_under_load_answers_or_refuses_every_request_and_leaves_no_task() -> Result<()> {
    let env = [("GRIPFAST_DRAIN_DEADLINE", "5s")];
    let (mut node, head, rest) = with_push(&env).await?;
    let port = node.port();
    let mut pusher = Connection::open(port).await?;
    pusher.send(&head).await?;
    pushes_under_way(&node).await?;
    let (tally, probed) = (Tally::default(), AtomicU64::new(0));
    let load = (0..CLIENTS).map(|_| ask_to_the_end(port, &tally));
    let stopping = async {
        until_true("there is load", || {
            tally.served.load(Ordering::Relaxed) > 500
        })
        .await?;
        node.signal(Signal::TERM)?;
        let began = Instant::now();
        until_ok("the signal has reached the node", async || {
            let ready = node.get("/readyz").await?;
            Ok((ready.status == 503).then_some(()))
        })
        .await?;
        let probing = probe_to_the_end(port, &probed);
        let finishing = async {
            until_true("refusals and probes are answered", || {
                let counts = [&tally.refused, &probed];
                counts
                    .iter()
                    .all(|count| count.load(Ordering::Relaxed) > 20)
            })
            .await?;
            // The push was begun before the stop, so it is taken to its end.
            pusher.send(&rest).await?;
            pusher.response().await
        };
        let (probed, pushed) = tokio::join!(probing, finishing);
        probed.context("probes")?;
        anyhow::Ok((began, pushed.context("the push")?))
    };
    let (stopped, loaded) = tokio::join!(stopping, futures_util::future::join_all(load));
    let (began, pushed) = stopped.with_context(|| node.log())?;
    for outcome in loaded {
        outcome.with_context(|| node.log())?;
    }
    pushed.must_be(200, &["unpack ok"]);
    let status = node.wait().await?;
    let took = began.elapsed();
    ensure!(status.success(), "{status}\n{}", node.log());
    ensure!(took < Duration::from_secs(7), "{took:?}");
    let last = last_line(&node);
    must_contain(&last, &["stopped: drained", "no task is left"]);
    println!(
        "{} served, {} refused, {} probes while draining, {took:?}",
        tally.served.into_inner(),
        tally.refused.into_inner(),
        probed.into_inner(),
    );
    Ok(())
}

#[tokio::test]
async fn what_outlasts_the_drain_deadline_is_cut_and_counted() -> Result<()> {
    let env = [("GRIPFAST_DRAIN_DEADLINE", "1s")];
    let (mut node, head, _) = with_push(&env).await?;
    let mut pusher = Connection::open(node.port()).await?;
    pusher.send(&head).await?;
    pushes_under_way(&node).await?;
    let began = Instant::now();
    let status = node.stop().await?;
    let took = began.elapsed();
    ensure!(status.success(), "{status}\n{}", node.log());
    ensure!(
        took >= Duration::from_millis(900) && took < Duration::from_secs(5),
        "{took:?}"
    );
    let last = last_line(&node);
    must_contain(&last, &["stopped: aborted, ", "running=0"]);
    // Who was cut was not told that the push went through.
    let told = pusher.response().await;
    ensure!(!told.is_ok_and(|it| it.contains("unpack ok")));
    Ok(())
}
