//! A resolver whose one worker waits for a silent peer: it refuses by its own queue.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, ProxyServer};
use rustix::process::Signal;

use super::{Figures, Scale, Target, must_be_at_once, must_be_saturated};
use crate::resolve::net;

const SETTINGS: &[(&str, &str)] = &[
    ("GRIPFAST_RESOLVE_WORKERS", "1"),
    ("GRIPFAST_RESOLVE_QUEUE", "1"),
    // The silent peer is asked again and again: an open breaker would answer for it.
    ("GRIPFAST_RESOLVE_BREAKER_THRESHOLD", "100"),
];

/// Resolutions that the resolver refused: because its queue was full, and in all.
async fn refusals(node: &Node) -> Result<(u64, u64)> {
    let counters = &node.json("/api/v1/resolve").await?["counters"];
    let count = |name: &str| counters[name].as_u64().context("no counter");
    let queue_full = count("queue_full_total")?;
    Ok((queue_full, queue_full + count("shed_total")?))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resolver_whose_worker_and_queue_are_taken_refuses_everybody_else_at_once() -> Result<()>
{
    let scale = Scale::chosen();
    let nodes = net::start_with(2, SETTINGS).await?;
    let (ours, bare) = (&nodes[0], ProxyServer::bare().await?);
    let (mut of_ours, mut of_floor) = (Vec::new(), Vec::new());
    for round in 0..scale.rounds {
        let target = Target {
            port: ours.port(),
            path: format!("/resolve/{}/nobody-has-{round}", Author::new().npub()),
            is_sought: true,
        };
        // It takes requests and answers none. Between rounds it does: who is silent for long is
        // forgotten.
        net::knows(ours, 1).await?;
        nodes[1].signal(Signal::STOP)?;
        let flooded = target.flooded(&scale).await;
        nodes[1].signal(Signal::CONT)?;
        of_ours.push(flooded?);
        of_floor.push(Target::bare(&bare).flooded(&scale).await?);
    }
    let (queue_full, refused) = refusals(ours).await?;
    ensure!(queue_full > 0, "the queue was never full");
    let seen: usize = of_ours.iter().map(|it| it.flood.refused.len()).sum();
    ensure!(
        refused == seen as u64,
        "{seen} refused, {refused} of them by the resolver"
    );
    let (ours, floor) = (
        Figures::of(&of_ours, scale.lasts),
        Figures::of(&of_floor, scale.lasts),
    );
    println!(
        "refused by the resolver: p50 {:.2} ms, p99 {:.2} ms of {seen}, {queue_full} of them by the \
         full queue; a bare 200: {:.2} ms, {:.2} ms, p99 differs by {:.2} ms between rounds; \
         processors busy {:.0} %, {:.0} %",
        ours.refused.0,
        ours.refused.1,
        floor.refused.0,
        floor.refused.1,
        floor.noise,
        ours.busy_percent,
        floor.busy_percent,
    );
    if scale.is_judged {
        must_be_saturated(ours.busy_percent)?;
        must_be_at_once(ours.refused.1, &floor)?;
    }
    Ok(())
}
