//! Commands that take long: benchmarks, campaigns, the suite against another server.

use clap::ValueEnum;

use crate::run;

/// Tests whose short form runs with the others, at full length.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Campaign {
    /// 1,000 kills at random moments
    Crash,
    /// A repository of 1 GiB pushed and cloned
    Memory,
}

/// Builds for release and prints each figure beside its floor.
pub(crate) fn bench(rest: &[String]) -> anyhow::Result<()> {
    let build = [
        "build",
        "--release",
        "--quiet",
        "-p",
        "gripfast",
        "-p",
        "grip-bench",
    ];
    run::succeed(run::cargo().args(build))?;
    let release = target_dir().join("release");
    let mut bench = run::command(release.join("grip-bench"));
    run::succeed(
        bench
            .arg("--binary")
            .arg(release.join("gripfast"))
            .args(rest),
    )
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
    let (test, filter, setting) = match campaign {
        Campaign::Crash => ("crash", "random_kills", ("GRIPFAST_CRASH_KILLS", "250")),
        Campaign::Memory => ("e2e", "memory::", ("GRIPFAST_MEMORY_MIB", "1024")),
    };
    let build = [
        "test",
        "-p",
        "gripfast",
        "--features",
        "fault-points",
        "--test",
    ];
    let mut command = run::cargo();
    command
        .args(build)
        .arg(test)
        .args(["--", filter, "--nocapture", "--test-threads", "2"]);
    run::succeed(command.env(setting.0, setting.1))
}

fn target_dir() -> std::path::PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map(std::path::PathBuf::from);
    chosen.unwrap_or_else(|| run::root().join("target"))
}
