//! The field's own suite, `grasp-audit`, against the real binary: requirements, and G06-12
//! to G06-23.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, installed};
use tempfile::TempDir;
use tokio::process::Command;

use crate::BINARY;

const VERSION: &str = "0.2.0";
/// One run takes a minute on a busy machine of two cores.
const DEADLINE: Duration = Duration::from_secs(170);
/// How it closes the reports of GRASP-01 and of GRASP-06.
pub(crate) const WHOLE: [&str; 2] = ["62/62 tests passed", "12/12 tests passed"];

/// How often it is run: once, or as often as `cargo xtask campaign audit` says.
fn runs() -> usize {
    let chosen = std::env::var("GRIPFAST_AUDIT_RUNS").ok();
    chosen.and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

/// The tests of the rule that a listed key need not list anybody in return.
const OF_LEGACY_RULE: [&str; 5] = [
    "accept_recursive_maintainer_announcement_without_service",
    "head_set_after_git_push_with_required_oids",
    "head_set_after_state_event_with_existing_commit",
    "push_authorized_by_maintainer_state_only",
    "push_authorized_by_recursive_maintainer_state",
];

/// The rule that the suite was written for.
pub(crate) const LEGACY_RULE: (&str, &str) = ("GRIPFAST_MAINTAINER_RULE", "legacy");
/// The same with all that the suite knows switched on.
const LEGACY: [(&str, &str); 2] = [LEGACY_RULE, ("NGIT_GRASP06_ENABLE", "true")];

/// Runs the suite against a fresh node with these settings, and returns its report.
async fn audit(settings: &[(&str, &str)]) -> Result<String> {
    let node = Node::start_with(BINARY, settings).await?;
    report_on(&node.relay_url()).await
}

/// Runs the suite against a relay, and returns its report. Git's configuration is empty but for the
/// protocol: the fixtures cannot live with the unborn HEAD of version 2.
#[expect(clippy::disallowed_methods, reason = "tests drive the real suite")]
pub(crate) async fn report_on(relay_url: &str) -> Result<String> {
    let home = TempDir::new()?;
    std::fs::write(
        home.path().join(".gitconfig"),
        "[protocol]\n\tversion = 0\n",
    )?;
    let program = installed("grasp-audit", VERSION, &["grasp-audit"])?.join("grasp-audit");
    let mut command = Command::new(program);
    command
        .args(["audit", "--relay", relay_url])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").context("PATH is set")?)
        .env("HOME", home.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(home.path())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(DEADLINE, command.output()).await;
    let output = ended.context("the suite has an end")??;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn every_test_of_grasp_audit_passes_under_the_rule_it_was_written_for() -> Result<()> {
    for run in 1..=runs() {
        let report = audit(&LEGACY).await?;
        for whole in WHOLE {
            ensure!(report.contains(whole), "run {run}:\n{report}");
            println!("run {run}: {whole}");
        }
    }
    Ok(())
}

/// G01-77
#[tokio::test]
async fn under_the_default_rule_exactly_the_tests_of_the_legacy_rule_fail() -> Result<()> {
    let report = audit(&[]).await?;
    let failed: BTreeSet<&str> = report.lines().filter_map(failed).collect();
    let expected = BTreeSet::from(OF_LEGACY_RULE);
    ensure!(failed == expected, "{failed:?}:\n{report}");
    Ok(())
}

/// The name in a line about a test that failed.
fn failed(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("✗ ")?;
    let mut words = rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let name = words.next()?;
    Some(name.strip_prefix("test_").unwrap_or(name))
}
