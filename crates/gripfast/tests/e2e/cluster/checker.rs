//! Faults at random under a workload, and a ledger of all that was acknowledged: the short form of
//! `cargo xtask campaign cluster`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use grip_testkit::{Balancer, git};
use rustix::process::Signal;

use super::scene::Cluster;
use crate::crash::{
    ledger::Ledger,
    workload::{self, Maintainer, Random},
};

/// Faults per test. The campaign sets it higher.
fn faults() -> u32 {
    std::env::var("GRIPFAST_CLUSTER_FAULTS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(6)
}

/// For another node to lead, if the one that is struck did.
const LONG_ENOUGH: Duration = Duration::from_secs(8);

/// What happens to a cluster.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Pause,
    /// Nothing gets through between a node and the database.
    Cut,
    DatabaseRestart,
}

/// Nothing acknowledged is lost, no claim is served without its proof, what one client reads never goes
/// back, and all nodes end equal, whatever happens to them and to the database.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_over_random_faults() -> Result<()> {
    let seed = 11;
    let (mut cluster, cables) = Cluster::start_cabled(3).await?;
    let mut maintainers = Vec::new();
    for node in &cluster.nodes {
        maintainers.push(Maintainer::announced_as(node, &cluster.nodes[0])?);
    }
    let readers = maintainers.iter().map(|maintainer| {
        let places = cluster.nodes.iter().map(|node| maintainer.url_at(node));
        Reader::new(places.collect())
    });
    let mut readers: Vec<Reader> = readers.collect();
    let reading = async {
        futures_util::future::join_all(readers.iter_mut().map(Reader::read_on)).await;
    };
    let told = tokio::select! {
        told = play(&mut cluster, &cables, &mut maintainers, seed) => told?,
        () = reading => unreachable!("readers read on"),
    };
    let mut read = 0;
    for (reader, maintainer) in readers.iter().zip(&maintainers) {
        reader.never_went_back(&maintainer.history()?)?;
        read += reader.tips.len();
    }
    ensure!(read > 0, "nobody read anything");
    println!("seed {seed}: {} faults, {told}, {read} reads", faults());
    cluster.stop_and_compare().await
}

/// Works, strikes and checks, round after round; says how much was acknowledged.
async fn play(
    cluster: &mut Cluster,
    cables: &[Balancer],
    maintainers: &mut [Maintainer],
    seed: u64,
) -> Result<String> {
    let mut random = Random::new(seed);
    let mut ledger = Ledger::default();
    for round in 0..faults() {
        let pause = random.below(1_500);
        let victim = usize::try_from(random.below(3))?;
        let fault = match random.below(5) {
            0 | 1 => Fault::Kill,
            2 => Fault::Pause,
            3 => Fault::Cut,
            _ => Fault::DatabaseRestart,
        };
        let at = usize::try_from(random.below(3))?;
        let working = workload::work(&cluster.nodes[at], maintainers, &mut ledger);
        tokio::select! {
            // Errors of the work are the fault as its clients see it.
            _ = working => {}
            // Not a wait for something to happen: the moment of the fault is the experiment.
            () = tokio::time::sleep(Duration::from_millis(pause)) => {}
        }
        let told =
            format!("seed {seed}, round {round}, {fault:?} of node-{victim} after {pause} ms");
        strike(cluster, &cables[victim], fault, victim)
            .await
            .with_context(|| told.clone())?;
        recover(cluster).await.with_context(|| told.clone())?;
        let asked = usize::try_from(random.below(3))?;
        ledger
            .check(&cluster.nodes[asked])
            .await
            .with_context(|| told.clone())?;
    }
    ensure!(ledger.acknowledged() > 0, "the workload got nothing done");
    Ok(ledger.summary())
}

/// Somebody who reads one branch again and again, each time at the next node.
struct Reader {
    places: Vec<String>,
    /// What was read, in the order in which it was.
    tips: Vec<String>,
}

impl Reader {
    fn new(places: Vec<String>) -> Self {
        Self {
            places,
            tips: Vec::new(),
        }
    }

    async fn read_on(&mut self) {
        for place in self.places.clone().iter().cycle() {
            // A node that is down, or cannot tell whether it is up to date, shows nothing.
            if let Ok(refs) = git::ls_remote(place).await {
                let main = refs.into_iter().find(|(name, _)| name == "refs/heads/main");
                self.tips.extend(main.map(|(_, tip)| tip));
            }
        }
    }

    fn never_went_back(&self, history: &[String]) -> Result<()> {
        let mut last = 0;
        for tip in &self.tips {
            let at = history.iter().position(|known| known == tip);
            let at = at.with_context(|| format!("{tip} was never committed"))?;
            ensure!(at >= last, "commit {at} was shown after commit {last}");
            last = at;
        }
        Ok(())
    }
}

async fn strike(
    cluster: &mut Cluster,
    cable: &Balancer,
    fault: Fault,
    victim: usize,
) -> Result<()> {
    match fault {
        Fault::Kill => cluster.nodes[victim].kill(),
        Fault::Pause => {
            cluster.nodes[victim].signal(Signal::STOP)?;
            tokio::time::sleep(LONG_ENOUGH).await;
            cluster.nodes[victim].signal(Signal::CONT)?;
        }
        Fault::Cut => {
            cable.block();
            tokio::time::sleep(LONG_ENOUGH).await;
            cable.unblock();
        }
        Fault::DatabaseRestart => cluster.server.restart().await?,
    }
    Ok(())
}

/// Starts what has ended, as a service manager does, until all nodes have caught up. One that was struck may
/// find out meanwhile that it does not lead any more, and end.
async fn recover(cluster: &mut Cluster) -> Result<()> {
    for _ in 0..3 {
        cluster.start_ended().await?;
        cluster.leader().await?;
        cluster.settle().await?;
        if cluster.nodes.iter_mut().all(|node| node.is_running()) {
            return Ok(());
        }
    }
    bail!("nodes end again and again")
}
