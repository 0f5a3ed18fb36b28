//! Nothing acknowledged is lost: the real binary is killed at random moments and at every named
//! step of holding, pushing and releasing, and what it had said is checked after each restart.

pub(crate) mod ledger;
mod removal;
pub(crate) mod workload;

use anyhow::{Context as _, Result, ensure};
use futures_util::{TryStreamExt as _, stream};
use grip_testkit::{Node, PostgresServer};
use ledger::Ledger;
use workload::Maintainer;

use crate::BINARY;

/// Kills per test; four of these run in the suite, so 80 in all. The campaign has 1,000.
fn kills() -> u32 {
    std::env::var("GRIPFAST_CRASH_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(20)
}

/// The steps at which a build with fault points can be made to die.
const POINTS: &[&str] = &[
    "git.draft.made",
    "hold.journalled",
    "push.received",
    "push.promoted",
    "push.refs_updated",
    "release.objects_durable",
    "release.refs_aligned",
    "release.event_saved",
    "release.journal_removed",
    "git.promote.half",
    "git.promote.done",
    "git.stage.recorded",
    "git.stage.done",
    "git.stage.promoted",
    "git.refs.before",
    "git.refs.written",
];

/// Cycles in which every step is reached at least twice.
const MOST_CYCLES: usize = 6;

async fn random_kills(seed: u64) -> Result<()> {
    let node = Node::prepare(BINARY, &[])?;
    random_kills_of(node, seed, kills()).await
}

async fn random_kills_of(mut node: Node, seed: u64, kills: u32) -> Result<()> {
    let mut random = workload::Random::new(seed);
    node.launch().await?;
    let mut ledger = Ledger::default();
    let mut maintainers = Vec::new();
    for _ in 0..3 {
        maintainers.push(Maintainer::new(&node)?);
    }
    for round in 0..kills {
        let pause = random.below(600);
        let working = workload::work(&node, &mut maintainers, &mut ledger);
        let killing = async {
            // Not a wait for something to happen: the moment of the kill is the experiment.
            tokio::time::sleep(std::time::Duration::from_millis(pause)).await;
        };
        tokio::select! {
            // Errors of the work are the kill as its clients see it.
            _ = working => {}
            () = killing => {}
        }
        node.crash_and_restart().await?;
        ledger
            .check(&node)
            .await
            .with_context(|| format!("seed {seed}, round {round}, killed after {pause} ms"))?;
    }
    node.run(&["check"]).await?;
    ensure!(ledger.acknowledged() > 0, "the workload got nothing done");
    println!("seed {seed}: {kills} kills, {}", ledger.summary());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_over_random_kills_first_seed() -> Result<()> {
    random_kills(1).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_over_random_kills_second_seed() -> Result<()> {
    random_kills(2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_over_random_kills_third_seed() -> Result<()> {
    random_kills(3).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_over_random_kills_fourth_seed() -> Result<()> {
    random_kills(4).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_where_the_journal_is_on_a_server() -> Result<()> {
    let server = PostgresServer::durable().await?;
    let mut node = Node::prepare(BINARY, &[])?;
    node.set_env("DATABASE_URL", &server.url());
    random_kills_of(node, 5, kills() / 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_named_step_is_finished_after_a_crash_in_it() -> Result<()> {
    // The first and the second time the step is reached: the release of an announcement with its
    // state, and of a later state.
    let crashes = POINTS.iter().flat_map(|point| [(point, 1), (point, 2)]);
    let crashes = crashes.map(|(point, hit)| async move {
        let crashed = crash_at(point, hit).await;
        crashed.with_context(|| format!("fault point {point}:{hit}"))
    });
    at_once(crashes).await
}

/// How many nodes die beside each other: most of the time each waits for its disk and its clients.
const NODES_AT_ONCE: usize = 3;

/// Does all of these, a few at the same time, until one fails.
async fn at_once(all: impl IntoIterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    stream::iter(all.into_iter().map(Ok))
        .try_for_each_concurrent(NODES_AT_ONCE, |one| one)
        .await
}

async fn crash_at(point: &str, hit: u32) -> Result<()> {
    let mut node = Node::prepare(BINARY, &[("GRIPFAST_FAULT", &format!("{point}:{hit}"))])?;
    node.launch().await?;
    let mut ledger = Ledger::default();
    let mut maintainer = Maintainer::new(&node)?;
    // Works until the node dies at the step.
    for _ in 0..MOST_CYCLES {
        if workload::cycle(&node, &mut maintainer, &mut ledger)
            .await
            .is_err()
        {
            break;
        }
    }
    node.died().await?;
    node.remove_env("GRIPFAST_FAULT");
    node.crash_and_restart().await?;
    ledger.check(&node).await?;
    node.run(&["check"]).await?;
    // And it goes on working.
    workload::cycle(&node, &mut maintainer, &mut ledger).await?;
    ledger.check(&node).await
}
