//! Commands that take long: benchmarks, campaigns, the suite against another server.

use clap::ValueEnum;

use crate::run;

/// Tests whose short form runs with the others, at full length.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Campaign {
    /// 200 bursts of 1,000 events, without a pause while their host has a free permit
    Burst,
    /// 1,000 kills at random moments
    Crash,
    /// A repository of 1 GiB pushed and cloned
    Memory,
    /// 10,000 jobs, eight processes, 300 kills, four of the database
    Queue,
    /// 32 nodes that find each other's repositories, and ten of them killed
    Resolve,
}

/// Builds the `dist` profile and prints each figure beside its floor.
pub(crate) fn bench(rest: &[String]) -> anyhow::Result<()> {
    let build = [
        "build",
        "--profile",
        "dist",
        "--quiet",
        "-p",
        "gripfast",
        "-p",
        "grip-bench",
    ];
    run::succeed(run::cargo().args(build))?;
    let dist = run::target_dir().join("dist");
    let mut bench = run::command(dist.join("grip-bench"));
    run::succeed(bench.arg("--binary").arg(dist.join("gripfast")).args(rest))
}

/// Runs the GRASP-01 cases against the server at `url`.
pub(crate) fn conformance(url: &str) -> anyhow::Result<()> {
    let cases = [
        "run",
        "--quiet",
        "-p",
        "grip-conformance",
        "--",
        "--url",
        url,
    ];
    run::succeed(run::cargo().args(cases))
}

pub(crate) fn campaign(campaign: Campaign) -> anyhow::Result<()> {
    const NODE: &[&str] = &["-p", "gripfast", "--features", "fault-points"];
    const QUEUE: &[&str] = &["-p", "grip-queue"];
    const PLAIN: &[&str] = &["-p", "gripfast"];
    let (package, test, filter, settings) = match campaign {
        Campaign::Burst => (
            PLAIN,
            "e2e",
            "sync::burst::a_burst_costs",
            &[("GRIPFAST_BURST_RUNS", "200")][..],
        ),
        Campaign::Crash => (
            NODE,
            "e2e",
            "random_kills",
            &[("GRIPFAST_CRASH_KILLS", "250")][..],
        ),
        Campaign::Memory => (
            NODE,
            "e2e",
            "memory::",
            &[("GRIPFAST_MEMORY_MIB", "1024")][..],
        ),
        Campaign::Queue => (
            QUEUE,
            "leases",
            "eight_",
            &[
                ("GRIPFAST_QUEUE_ITEMS", "10000"),
                ("GRIPFAST_QUEUE_KILLS", "300"),
            ][..],
        ),
        Campaign::Resolve => (
            PLAIN,
            "e2e",
            "resolve::many::",
            &[("GRIPFAST_RESOLVE_NODES", "32")][..],
        ),
    };
    // Processes that are killed by the dozen are not to be slowed down by each other.
    let threads = match campaign {
        Campaign::Burst | Campaign::Queue | Campaign::Resolve => "1",
        Campaign::Crash | Campaign::Memory => "2",
    };
    let mut command = run::cargo();
    command
        .arg("test")
        .args(package)
        .args(["--test", test, "--", filter, "--nocapture"])
        .args(["--test-threads", threads])
        .envs(settings.iter().copied());
    run::succeed(&mut command)
}
