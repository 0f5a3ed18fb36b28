//! SIGTERM while names are being resolved.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author,
    http::{self, Connection},
    until_ok,
};
use rustix::process::Signal;

use crate::resolve::net;

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
