//! SIGHUP while requests are under way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, http::Connection, until};
use rustix::process::Signal;

use crate::BINARY;

const RELOADS: usize = 25;
const CLIENTS: usize = 8;

/// One number in two settings: who sees two numbers has seen half a reload.
fn write_config(node: &Node, number: usize) -> Result<()> {
    let text = format!(
        "relay_name = \"name {number}\"\nrelay_description = \"about {number}\"\n\
         http_requests_per_second = {}\nmax_pack_bytes = \"{} MiB\"\n",
        1000 + number,
        100 + number,
    );
    Ok(std::fs::write(node.work_dir().join("gripfast.toml"), text)?)
}

/// Asks on one connection until told to stop; every answer must be 200 and whole.
async fn load(node: &Node, done: &AtomicBool, asked: &AtomicU64) -> Result<()> {
    let mut client = Connection::open(node.port()).await?;
    while !done.load(Ordering::Acquire) {
        for path in ["/", "/version", "/api/v1/sync", "/healthz", "/readyz"] {
            let answer = client.get(path).await.with_context(|| path.to_owned())?;
            ensure!(answer.status == 200, "{path}: {answer:?}");
            ensure!(!answer.is_last(), "{path}: the connection was given up");
        }
        let accept = [("accept", "application/nostr+json")];
        let document = client.ask("GET", "/", &accept, b"").await?.json()?;
        let number = |key: &str| {
            document[key]
                .as_str()
                .and_then(|text| text.split(' ').nth(1))
        };
        ensure!(
            number("name").is_some() && number("name") == number("description"),
            "half a reload: {document}"
        );
        asked.fetch_add(6, Ordering::Relaxed);
    }
    Ok(())
}

async fn reload_often(node: &Node, asked: &AtomicU64) -> Result<()> {
    for number in 1..=RELOADS {
        let before = asked.load(Ordering::Relaxed);
        write_config(node, number)?;
        node.signal(Signal::HUP)?;
        until(
            "the reload is done, and requests were answered meanwhile",
            || async {
                let reloads = node.log().matches("configuration reloaded").count();
                let moved = asked.load(Ordering::Relaxed) >= before + 100;
                (reloads >= number && moved).then_some(())
            },
        )
        .await?;
    }
    Ok(())
}

#[tokio::test]
async fn reloads_under_load_drop_no_request_and_are_never_seen_by_halves() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    write_config(&node, 0)?;
    node.launch().await?;
    let (done, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let clients = (0..CLIENTS).map(|_| load(&node, &done, &asked));
    let reloading = async {
        let reloaded = reload_often(&node, &asked).await;
        done.store(true, Ordering::Release);
        reloaded
    };
    let (reloaded, answered) = tokio::join!(reloading, futures_util::future::join_all(clients));
    for outcome in answered {
        outcome.with_context(|| node.log())?;
    }
    reloaded?;
    let log = node.log();
    ensure!(
        log.contains("need a restart") && log.contains("max_pack_bytes"),
        "which settings need a restart is said:\n{log}"
    );
    println!("{} requests during {RELOADS} reloads", asked.into_inner());
    Ok(())
}
