//! Commands that take long: benchmarks, campaigns, the suite against another server.

use clap::ValueEnum;

use crate::{run, tools};

/// Tests whose short form runs with the others, at full length.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Campaign {
    /// 100,000 random stories against the model of the protocol; `GRIPFAST_MODEL_SEED` chooses them
    Agreement,
    /// 500 of them on the real binary with each database
    AgreementNode,
    /// 20 runs of grasp-audit
    Audit,
    /// Incremental backups of 10 GB of repositories under load, and their way back;
    /// `GRIPFAST_BACKUP_MIB` sets another size, and twice that much room is needed
    Backup,
    /// 200 bursts of 1,000 events, without a pause while their host has a free permit
    Burst,
    /// 1,000 faults of the nodes, the database and the object store of a cluster, and every case of the
    /// conformance suite that restarts nodes
    Cluster,
    /// First clone of a 200 MiB repository at a node with an empty disk, and a join to 1,000 repositories
    ClusterJoin,
    /// 1,000 kills at random moments
    Crash,
    /// 50,000 events of 2,000 repositories followed on 50 relays, read twice; 50 pushes
    Follow,
    /// Lookups among 100,000 simulated nodes; `GRIPFAST_SIM_SEED` chooses them
    DhtSim,
    /// Honest clients beside every kind of attacker, from 1 and from 50 addresses
    Hostile,
    /// 1,000 repositories moved in from each layout of ngit-grasp, and killed on the way
    Import,
    /// A repository of 1 GiB pushed and cloned
    Memory,
    /// Fifty addresses that resolve without a pause, beside people who do so now and then
    Overload,
    /// 10,000 jobs, eight processes, 300 kills, four of the database
    Queue,
    /// 1,000 repositories with every kind of damage, found and repaired by `check --repair`
    Repair,
    /// 32 nodes that find each other's repositories, liars among them, and ten of them killed
    Resolve,
    /// 100,000 deletion requests, from the day they come until they are forgotten
    Retention,
    /// A checksum database of 1,000,000 records over HTTP: lookups, tiles, memory, proofs by go
    Sumdb,
}

impl Campaign {
    /// Whether its figures are times and memory: those are of an optimised node.
    fn is_timed(self) -> bool {
        use Campaign::{
            Audit, Backup, Burst, ClusterJoin, Follow, Hostile, Import, Overload, Resolve, Sumdb,
        };
        matches!(
            self,
            Audit
                | Backup
                | Burst
                | ClusterJoin
                | Follow
                | Hostile
                | Import
                | Overload
                | Resolve
                | Sumdb
        )
    }
}

/// The node that a campaign measures, if it is another one than that of `cargo build --release`.
const MEASURED_BINARY: &str = "GRIPFAST_MEASURED_BINARY";

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
    let words = Target::Test("e2e").words();
    let words = format!("test {words} -- pages::gallery:: --nocapture");
    let dir = run::root().join("docs/images");
    run::succeed(run::cargo_with(&words).env("GRIPFAST_PICTURES_DIR", dir))
}

/// Runs the GRASP-01 cases against the server at `url`.
pub(crate) fn conformance(url: &str) -> anyhow::Result<()> {
    let mut cases = run::cargo_with("run --quiet -p grip-conformance -- --url");
    run::succeed(cases.arg(url))
}

/// Where the test of a campaign is.
enum Target {
    /// An integration test, built as `cargo xtask test` builds it: `-p` would have other features of
    /// the dependencies, and build them again.
    Test(&'static str),
    /// The unit tests of a crate: with the whole workspace those of every other one would be built.
    Lib(&'static str),
    /// An integration test of a crate, optimised, for what computes for a long time by itself.
    Optimised(&'static str, &'static str),
}

impl Target {
    fn words(&self) -> String {
        match self {
            Self::Test(name) => {
                format!("--workspace --features gripfast/fault-points --test {name}")
            }
            Self::Lib(package) => format!("-p {package} --lib"),
            Self::Optimised(package, name) => format!("--release -p {package} --test {name}"),
        }
    }
}

pub(crate) fn campaign(campaign: Campaign) -> anyhow::Result<()> {
    const E2E: Target = Target::Test("e2e");
    // Processes that are killed by the dozen are not to be slowed down by each other: most run in
    // one thread. Settings are the environment, `NAME=value`; what is set already stays.
    let (target, filter, threads, settings) = match campaign {
        Campaign::Agreement => (
            Target::Optimised("grip-grasp", "stories"),
            "model::",
            1,
            // In memory: what a story writes is of no use once it was compared.
            "GRIPFAST_MODEL_CASES=100000 GRIPFAST_MODEL_THREADS=12 TMPDIR=/dev/shm",
        ),
        Campaign::AgreementNode => (
            E2E,
            "agreement::model::",
            1,
            "GRIPFAST_MODEL_CASES=500 GRIPFAST_MODEL_THREADS=4",
        ),
        Campaign::Audit => (E2E, "audit::", 1, "GRIPFAST_AUDIT_RUNS=20"),
        Campaign::Backup => (
            E2E,
            "operate::backup::large::",
            1,
            "GRIPFAST_BACKUP_MIB=10240",
        ),
        Campaign::Burst => (
            E2E,
            "sync::burst::a_burst_costs",
            1,
            "GRIPFAST_BURST_RUNS=200",
        ),
        Campaign::Cluster => (
            E2E,
            "cluster::checker:: cluster::balanced::three_nodes_behind_a_balancer_conform_over_",
            1,
            "GRIPFAST_CLUSTER_FAULTS=1000 GRIPFAST_CLUSTER_CASES=100",
        ),
        Campaign::ClusterJoin => (
            E2E,
            "cluster::join::",
            1,
            "GRIPFAST_CLUSTER_CLONE_MIB=200 GRIPFAST_CLUSTER_REPOSITORIES=1000",
        ),
        Campaign::Crash => (E2E, "random_kills", 2, "GRIPFAST_CRASH_KILLS=250"),
        Campaign::Follow => {
            let settings = "GRIPFAST_FOLLOW_REPOSITORIES=2000 GRIPFAST_FOLLOW_EVENTS=50000 \
                            GRIPFAST_FOLLOW_RELAYS=50 GRIPFAST_FOLLOW_IDLE_SECONDS=120 \
                            GRIPFAST_FOLLOW_PUSHES=50";
            (E2E, "follow::many::", 1, settings)
        }
        Campaign::DhtSim => {
            let settings = "GRIPFAST_SIM_NODES=100000 GRIPFAST_SIM_REPOSITORIES=1000000 \
                            GRIPFAST_SIM_LOOKUPS=500";
            (Target::Lib("grip-resolve"), "simulation::", 1, settings)
        }
        Campaign::Hostile => (E2E, "hostile::campaign::", 1, "GRIPFAST_HOSTILE_ROUNDS=25"),
        Campaign::Import => (E2E, "import::many_", 1, "GRIPFAST_IMPORT_REPOSITORIES=1000"),
        Campaign::Memory => (E2E, "memory::", 2, "GRIPFAST_MEMORY_MIB=1024"),
        Campaign::Overload => (E2E, "resolve::overload::", 1, "GRIPFAST_OVERLOAD_ROUNDS=9"),
        Campaign::Queue => {
            let settings = "GRIPFAST_QUEUE_ITEMS=10000 GRIPFAST_QUEUE_KILLS=300";
            (Target::Test("leases"), "eight_", 1, settings)
        }
        Campaign::Repair => (
            E2E,
            "operate::repair::",
            1,
            "GRIPFAST_REPAIR_REPOSITORIES=1000",
        ),
        Campaign::Resolve => (E2E, "resolve::many::", 1, "GRIPFAST_RESOLVE_NODES=32"),
        Campaign::Retention => (
            Target::Test("store"),
            "requests::the_store_after_thousands",
            1,
            "GRIPFAST_DELETION_REQUESTS=100000",
        ),
        Campaign::Sumdb => (
            E2E,
            "index::long_log::",
            1,
            "GRIPFAST_SUMDB_RECORDS=1000000",
        ),
    };
    let words = target.words();
    let words = format!("test {words} -- {filter} --nocapture --test-threads {threads}");
    let is_set = |name: &str| name.starts_with("GRIPFAST_") && std::env::var_os(name).is_some();
    let settings = settings
        .split(' ')
        .filter_map(|setting| setting.split_once('='))
        .filter(|(name, _)| !is_set(name));
    let mut test = run::cargo_with(&words);
    test.envs(settings);
    if campaign.is_timed() && !is_set(MEASURED_BINARY) {
        run::succeed(&mut run::cargo_with("build --release -p gripfast"))?;
        let binary = run::target_dir().join("release/gripfast");
        test.env(MEASURED_BINARY, binary);
    }
    run::succeed(&mut test)
}
