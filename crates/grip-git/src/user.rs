//! The git of a person: their configuration, and fetches into their own repositories.
//!
//! For the remote helper, which git itself starts in a repository of its user. Nothing of the node
//! runs through here: these commands inherit the person's environment and configuration, proxies and
//! credentials included.

use std::{
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use grip_types::Oid;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncWriteExt as _,
    signal::unix::{SignalKind, signal},
    time::timeout,
};

/// A host that sends less than this many bytes a second for [`SLOW_SECONDS`] is given up.
const MIN_BYTES_PER_SECOND: u32 = 1_000;
const SLOW_SECONDS: u32 = 20;
/// How long a host has to say which refs it has. Git counts slow seconds once it is connected, and
/// waits five minutes for a TLS handshake that nobody answers.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

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
    if !answers(url)? {
        return Ok(false);
    }
    let mut command = git_for_strangers();
    command
        .arg("--git-dir")
        .arg(git_dir)
        .arg("fetch")
        .args(["--stdin", "--no-write-fetch-head", "--no-tags", "--refmap="])
        .args(["--no-auto-maintenance", "--no-recurse-submodules"])
        .args(is_quiet.then_some("--quiet"))
        .args(["--", url])
        .stdin(Stdio::piped());
    let lines: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
    run(command, lines, None)
}

/// Whether the host of `url` says in time which refs it has.
fn answers(url: &str) -> io::Result<bool> {
    let mut command = git_for_strangers();
    command
        .args(["ls-remote", "--quiet", "--", url, "HEAD"])
        .stdin(Stdio::null());
    run(command, String::new(), Some(ANSWER_TIMEOUT))
}

/// Runs git in a process group of its own, and says whether it succeeded in time. It ends with us: whoever
/// stops the clone stops it, though the terminal tells our group alone.
fn run(mut command: Command, input: String, limit: Option<Duration>) -> io::Result<bool> {
    // Git leaves the process that waits for the host behind when it is ended itself.
    command.process_group(0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut stops = [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ];
        let mut child = tokio::process::Command::from(command).spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id as i32));
        let stdin = child.stdin.take();
        let work = async {
            if let Some(mut stdin) = stdin {
                // A git that has ended says why by its status.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            child.wait().await
        };
        let [interrupt, terminate, hangup] = &mut stops;
        let ended = tokio::select! {
            ended = within(limit, work) => ended.transpose()?,
            _ = interrupt.recv() => return stopped(group),
            _ = terminate.recv() => return stopped(group),
            _ = hangup.recv() => return stopped(group),
        };
        if let Some(status) = ended {
            return Ok(status.success());
        }
        end(group)?;
        child.wait().await?;
        Ok(false)
    })
}

/// What `work` comes to; none if it takes longer than it may.
async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

fn end(group: Option<Pid>) -> io::Result<()> {
    match group {
        Some(group) => Ok(kill_process_group(group, Signal::KILL)?),
        None => Ok(()),
    }
}

fn stopped(group: Option<Pid>) -> io::Result<bool> {
    end(group)?;
    Err(io::Error::new(io::ErrorKind::Interrupted, "it was stopped"))
}

/// The person's git with bounds for hosts that others named.
fn git_for_strangers() -> Command {
    let mut command = git();
    command
        .args(["-c", &format!("http.lowSpeedLimit={MIN_BYTES_PER_SECOND}")])
        .args(["-c", &format!("http.lowSpeedTime={SLOW_SECONDS}")])
        .env("GIT_ALLOW_PROTOCOL", "http:https")
        .env("GIT_TERMINAL_PROMPT", "0")
        // The answers of the remote helper go there.
        .stdout(Stdio::null());
    command
}

fn git() -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "the person's own git, which is to have their environment"
    )]
    Command::new("git")
}
