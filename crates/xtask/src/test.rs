//! `cargo xtask test`: everything the tests need, then all of them.

use std::{env, fs, num::NonZeroUsize, thread};

use anyhow::{Context as _, ensure};

use crate::{run, tools};

/// Runs the models of grip-tasks, of which the resolver's queue and its settings are made. They are a
/// build of their own: locks and channels are made of what the checker watches.
pub(crate) fn loom() -> anyhow::Result<()> {
    let models = "test --package grip-tasks --features loom --lib models::";
    run::succeed(&mut run::cargo_with(models))
}

/// Runs cargo-deny. The database of advisories is on the network: without it the other rules are
/// checked all the same, and what was not checked is said.
pub(crate) fn deny() -> anyhow::Result<()> {
    let program = tools::cargo_deny()?;
    let deny = |words: &str| run::succeed(run::command(&program).args(words.split(' ')));
    let rules = "--locked --log-level=error check --hide-inclusion-graph bans licenses sources";
    if deny("fetch db").is_ok() {
        return deny(&format!("{rules} advisories"));
    }
    deny(rules)?;
    eprintln!("warning: advisories were not checked, because their database cannot be fetched");
    Ok(())
}

/// Runs all tests, or those that `rest` selects.
pub(crate) fn run(rest: &[String]) -> anyhow::Result<()> {
    let tools = tools::prepare()?;
    let threads = env::var_os(THREADS).unwrap_or_else(|| test_threads().to_string().into());
    let cargo = |words| {
        let mut command = run::cargo_with(words);
        command
            .env(THREADS, &threads)
            .env("PATH", &tools.path)
            .env("GRIPFAST_TOOLS_DIR", &tools.installed_dir)
            .env("GRIPFAST_FIXTURES_DIR", &tools.fixtures_dir);
        command
    };
    // The examples in the documentation first, so that the summary of all tests ends the output.
    if rest.is_empty() {
        run::succeed(&mut cargo("test --workspace --doc --quiet"))?;
        loom()?;
    }
    let nextest = "nextest run --workspace --features gripfast/fault-points";
    let tested = run::succeed(cargo(nextest).args(rest));
    let reported = report();
    // A build that failed leaves no report: its error is the one to show.
    tested.and(reported)
}

/// The runner's own setting of how many tests run at once.
const THREADS: &str = "NEXTEST_TEST_THREADS";

/// Half as many again as there are processors: tests of whole nodes mostly wait.
fn test_threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    processors + processors.div_ceil(2)
}

/// How many tests are listed at the end.
const SLOWEST: usize = 10;

/// Tests that may pass at their second run only. One at a time is a finding to look at, and no
/// reason to throw away what the others have shown; more of them are one.
const MAX_FLAKY: usize = 3;

/// Prints the tests that took longest and those that failed once, from the report that
/// `.config/nextest.toml` asks for.
fn report() -> anyhow::Result<()> {
    let report = run::target_dir().join("nextest/default/junit.xml");
    let report = fs::read_to_string(&report).with_context(|| report.display().to_string())?;
    let mut tests = test_results(&report);
    tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let (shown, all) = (SLOWEST.min(tests.len()), tests.len());
    println!("\nthe {shown} slowest of {all} tests:");
    for test in tests.iter().take(SLOWEST) {
        println!("{:>9.1} s  {} {}", test.seconds, test.binary, test.name);
    }
    let flaky: Vec<_> = tests.iter().filter(|test| test.is_flaky).collect();
    if !flaky.is_empty() {
        println!("\nfailed, and passed when run again:");
    }
    for test in &flaky {
        println!("           {} {}", test.binary, test.name);
    }
    ensure!(
        flaky.len() <= MAX_FLAKY,
        "{} tests passed at their second run only; {MAX_FLAKY} are tolerated",
        flaky.len()
    );
    Ok(())
}

#[derive(Debug, PartialEq)]
struct TestResult<'a> {
    binary: &'a str,
    name: &'a str,
    seconds: f64,
    /// Failed, and passed when it was run again.
    is_flaky: bool,
}

/// Reads the `<testcase>` elements of a JUnit report. Names of tests need no unescaping: they are
/// paths of Rust functions.
fn test_results(report: &str) -> Vec<TestResult<'_>> {
    fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
        let (_, value) = element.split_once(&format!(" {name}=\""))?;
        value.split('"').next()
    }
    let elements = report.split("<testcase").skip(1);
    elements
        .filter_map(|element| {
            let start = element.split('>').next()?;
            Some(TestResult {
                binary: attribute(start, "classname")?,
                name: attribute(start, "name")?,
                seconds: attribute(start, "time")?.parse().ok()?,
                is_flaky: element.contains("<flakyFailure"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_second_runs_are_read_from_the_report_of_the_runner() {
        let report = r#"<?xml version="1.0"?><testsuites name="run" time="9">
            <testsuite name="gripfast::e2e" tests="1">
                <testcase name="memory::a_clone" classname="gripfast::e2e" timestamp="x" time="8.250">
                </testcase>
                <testcase name="again" classname="grip-web" timestamp="x" time="1.5">
                    <flakyFailure timestamp="x" time="2.000" message="it panicked" type="test failure">
                    </flakyFailure>
                </testcase>
                <testcase name="short" classname="grip-git" timestamp="x" time="0.004"/>
            </testsuite></testsuites>"#;
        let result = |binary, name, seconds, is_flaky| TestResult {
            binary,
            name,
            seconds,
            is_flaky,
        };
        assert_eq!(
            test_results(report),
            [
                result("gripfast::e2e", "memory::a_clone", 8.25, false),
                result("grip-web", "again", 1.5, true),
                result("grip-git", "short", 0.004, false),
            ]
        );
    }
}
