//! Commands that take long: benchmarks, campaigns, the suite against another server.

use clap::ValueEnum;

use crate::{run, tools};

/// Tests whose short form runs with the others, at full length.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Campaign {
    /// 100,000 random stories against the model of the protocol; `GRIPFAST_MODEL_SEED` chooses them
    Agreement,
    /// 20 runs of grasp-audit
    Audit,
    /// 200 bursts of 1,000 events, without a pause while their host has a free permit
    Burst,
    /// 1,000 kills at random moments
    Crash,
    /// Lookups among 100,000 simulated nodes; `GRIPFAST_SIM_SEED` chooses them
    DhtSim,
    /// Honest clients beside every kind of attacker, from 1 and from 50 addresses
    Hostile,
    /// A repository of 1 GiB pushed and cloned
    Memory,
    /// 10,000 jobs, eight processes, 300 kills, four of the database
    Queue,
    /// 32 nodes that find each other's repositories, ten of them killed, and liars beside the rest
    Resolve,
}

/// Builds the `dist` profile and prints each figure beside its floor.
pub(crate) fn bench(rest: &[String]) -> anyhow::Result<()> {
    let build = "build --profile dist --quiet -p gripfast -p grip-bench";
    run::succeed(&mut run::cargo_with(build))?;
    let dist = run::target_dir().join("dist");
    let mut bench = run::command(dist.join("grip-bench"));
    run::succeed(bench.arg("--binary").arg(dist.join("gripfast")).args(rest))
}

/// Writes pictures of pages to docs/images.
pub(crate) fn screenshots() -> anyhow::Result<()> {
    tools::browser()?;
    let words = "test -p gripfast --test e2e -- pages::gallery:: --nocapture";
    let dir = run::root().join("docs/images");
    run::succeed(run::cargo_with(words).env("GRIPFAST_PICTURES_DIR", dir))
}

/// Runs the GRASP-01 cases against the server at `url`.
pub(crate) fn conformance(url: &str) -> anyhow::Result<()> {
    let mut cases = run::cargo_with("run --quiet -p grip-conformance -- --url");
    run::succeed(cases.arg(url))
}

pub(crate) fn campaign(campaign: Campaign) -> anyhow::Result<()> {
    const NODE: &str = "-p gripfast --features fault-points --test e2e";
    const PLAIN: &str = "-p gripfast --test e2e";
    const QUEUE: &str = "-p grip-queue --test leases";
    // Processes that are killed by the dozen are not to be slowed down by each other: most run in
    // one thread. Settings are the environment, `NAME=value`.
    let (target, filter, threads, settings) = match campaign {
        Campaign::Agreement => (
            "-p grip-grasp --test stories",
            "model::",
            1,
            "GRIPFAST_MODEL_CASES=100000",
        ),
        Campaign::Audit => (PLAIN, "audit::", 1, "GRIPFAST_AUDIT_RUNS=20"),
        Campaign::Burst => (
            PLAIN,
            "sync::burst::a_burst_costs",
            1,
            "GRIPFAST_BURST_RUNS=200",
        ),
        Campaign::Crash => (NODE, "random_kills", 2, "GRIPFAST_CRASH_KILLS=250"),
        Campaign::DhtSim => {
            let settings = "GRIPFAST_SIM_NODES=100000 GRIPFAST_SIM_REPOSITORIES=1000000 \
                            GRIPFAST_SIM_LOOKUPS=500";
            ("-p grip-resolve --lib", "simulation::", 1, settings)
        }
        Campaign::Hostile => (NODE, "hostile::campaign::", 1, "GRIPFAST_HOSTILE_ROUNDS=25"),
        Campaign::Memory => (NODE, "memory::", 2, "GRIPFAST_MEMORY_MIB=1024"),
        Campaign::Queue => {
            let settings = "GRIPFAST_QUEUE_ITEMS=10000 GRIPFAST_QUEUE_KILLS=300";
            (QUEUE, "eight_", 1, settings)
        }
        Campaign::Resolve => (PLAIN, "resolve::many::", 1, "GRIPFAST_RESOLVE_NODES=32"),
    };
    let words = format!("test {target} -- {filter} --nocapture --test-threads {threads}");
    let settings = settings
        .split(' ')
        .filter_map(|setting| setting.split_once('='));
    run::succeed(run::cargo_with(&words).envs(settings))
}
