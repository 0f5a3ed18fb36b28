//! `cargo xtask test`: everything the tests need, then all of them.

use crate::{run, tools};

/// Runs the models of grip-tasks. They are a build of their own: locks and channels are made of
/// what the checker watches.
pub(crate) fn loom() -> anyhow::Result<()> {
    let models = [
        "test",
        "--package",
        "grip-tasks",
        "--features",
        "loom",
        "--lib",
        "models::",
    ];
    run::succeed(
        run::cargo()
            .args(models)
            .arg("--target-dir")
            .arg("target/loom"),
    )
}

/// Runs all tests, or those that `rest` selects.
pub(crate) fn run(rest: &[String]) -> anyhow::Result<()> {
    let tools = tools::prepare()?;
    let cargo = || {
        let mut command = run::cargo();
        command
            .env("PATH", &tools.path)
            .env("GRIPFAST_NGIT_DIR", &tools.ngit_dir)
            .env("GRIPFAST_FIXTURES_DIR", &tools.fixtures_dir);
        command
    };
    let nextest = [
        "nextest",
        "run",
        "--workspace",
        "--features",
        "gripfast/fault-points",
    ];
    // The examples in the documentation first, so that the summary of all tests ends the output.
    if rest.is_empty() {
        run::succeed(cargo().args(["test", "--workspace", "--doc", "--quiet"]))?;
        loom()?;
    }
    run::succeed(cargo().args(nextest).args(rest))
}
