//! The git of a person: their configuration, and fetches into their own repositories.
//!
//! For the remote helper, which git itself starts in a repository of its user. Nothing of the node
//! runs through here: these commands inherit the person's environment and configuration, proxies and
//! credentials included.

use std::{
    io::{self, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use grip_types::Oid;

/// A host that sends less than this many bytes a second for [`SLOW_SECONDS`] is given up.
const MIN_BYTES_PER_SECOND: u32 = 1_000;
const SLOW_SECONDS: u32 = 20;

/// Reads a value of the person's configuration. Blocking.
pub fn config(key: &str) -> io::Result<Option<String>> {
    let output = git().args(["config", "--get", key]).output()?;
    let value = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Some(value).filter(|value| output.status.success() && !value.is_empty()))
}

/// Fetches objects and all that they need from `url` into a repository, and says whether they came.
///
/// No ref is written. What git has to say goes to the person's terminal. Blocking.
pub fn fetch(git_dir: &Path, url: &str, oids: &[Oid], is_quiet: bool) -> io::Result<bool> {
    let mut command = git();
    command
        .arg("--git-dir")
        .arg(git_dir)
        .args(["-c", &format!("http.lowSpeedLimit={MIN_BYTES_PER_SECOND}")])
        .args(["-c", &format!("http.lowSpeedTime={SLOW_SECONDS}")])
        .arg("fetch")
        .args(["--stdin", "--no-write-fetch-head", "--no-tags", "--refmap="])
        .args(["--no-auto-maintenance", "--no-recurse-submodules"])
        .args(is_quiet.then_some("--quiet"))
        .args(["--", url])
        // What the URL leads to was named by others.
        .env("GIT_ALLOW_PROTOCOL", "http:https")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::piped())
        // The answers of the remote helper go there.
        .stdout(Stdio::null());
    let mut child = command.spawn()?;
    let mut wanted = child.stdin.take().expect("because it was piped");
    let lines: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
    // A git that has ended says why by its status.
    let _ = wanted.write_all(lines.as_bytes());
    drop(wanted);
    Ok(child.wait()?.success())
}

fn git() -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the person's own git, which is to have their environment"
    )]
    Command::new("git")
}
