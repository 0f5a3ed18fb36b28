//! People who use `ngit`, each with a home of their own and no network but the node.

use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::Node;
use tempfile::TempDir;
use tokio::process::Command;

/// How long one command of a person may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Where a client looks for relays and servers when a repository names none.
const DEFAULT_SETS: &[&str] = &[
    "NGIT_RELAY_DEFAULT_SET",
    "NGIT_GRASP_DEFAULT_SET",
    "NGIT_RELAY_ANNOUNCEMENT_INDEXER_SET",
    "NGIT_RELAY_BLASTER_SET",
    "NGIT_RELAY_SIGNER_FALLBACK_SET",
];

/// A line of the client, at the version that the tests install.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Three,
    Two,
}

impl Line {
    fn version(self) -> &'static str {
        match self {
            Self::Three => "3.0.3",
            Self::Two => "2.6.2",
        }
    }

    /// Says whether it gives an event a later second than the one it follows. Line 2 takes the
    /// time as it is, and in a tie the lowest id wins, whichever came last.
    pub fn keeps_events_in_order(self) -> bool {
        self == Self::Three
    }

    /// The directory with `ngit` and `git-remote-nostr`.
    fn programs(self) -> Result<PathBuf> {
        grip_testkit::installed("ngit", self.version(), &["ngit", "git-remote-nostr"])
    }
}

/// Somebody at a keyboard.
#[derive(Debug)]
pub struct Person {
    pub name: &'static str,
    pub line: Line,
    dir: TempDir,
    programs: PathBuf,
    relay: String,
}

impl Person {
    pub fn new(name: &'static str, line: Line, node: &Node) -> Result<Self> {
        Self::with_relay(name, line, node.relay_url())
    }

    /// Somebody whose own events go to `relay`.
    pub fn with_relay(name: &'static str, line: Line, relay: String) -> Result<Self> {
        let person = Self {
            name,
            line,
            dir: TempDir::new()?,
            programs: line.programs()?,
            relay,
        };
        std::fs::create_dir(person.work())?;
        let config = format!(
            "[user]\n\tname = {name}\n\temail = {name}@example.com\n\
             [init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n\
             [nostr]\n\trepo-relay-only = true\n"
        );
        std::fs::write(person.home().join(".gitconfig"), config)?;
        Ok(person)
    }

    fn home(&self) -> &Path {
        self.dir.path()
    }

    /// Where programs of the person keep what need not be seen.
    pub fn state(&self) -> PathBuf {
        self.home().join("state")
    }

    /// Where the person's work tree is, or will be cloned to.
    fn work(&self) -> PathBuf {
        self.home().join("work")
    }

    /// Runs a command line in the work tree, to its end.
    pub async fn run(&self, args: &[&str]) -> Result<Step> {
        let (program, rest) = args.split_first().context("a command has a name")?;
        let running = self.command(program)?.args(rest).output();
        let command = format!("{}$ {}", self.name, args.join(" "));
        let output = tokio::time::timeout(DEADLINE, running)
            .await
            .with_context(|| format!("{command}\ntook more than {} s", DEADLINE.as_secs()))?
            .with_context(|| format!("{command}\ncould not be started"))?;
        Ok(Step {
            command,
            status: output.status,
            stdout: plain(&output.stdout),
            stderr: plain(&output.stderr),
        })
    }

    /// Runs a command line that must work, and returns what it printed.
    pub async fn ok(&self, args: &[&str]) -> Result<String> {
        let step = self.run(args).await?;
        ensure!(step.worked(), "{step}");
        Ok(step.stdout.trim().to_owned())
    }

    /// Writes `file` and commits it; returns the commit.
    pub async fn commit(&self, file: &str, content: &str) -> Result<String> {
        std::fs::write(self.work().join(file), content)?;
        self.ok(&["git", "add", file]).await?;
        let message = format!("change {file}");
        self.ok(&["git", "commit", "--quiet", "-m", &message])
            .await?;
        self.ok(&["git", "rev-parse", "HEAD"]).await
    }

    /// A command that sees nothing of the environment but `PATH`, with this client in front.
    #[expect(clippy::disallowed_methods, reason = "tests drive the real client")]
    fn command(&self, program: &str) -> Result<Command> {
        let mut command = Command::new(program);
        let home = self.home();
        command
            .current_dir(self.work())
            .env_clear()
            .env("PATH", self.path()?)
            .env("HOME", home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_CACHE_HOME", home.join("cache"))
            .env("XDG_STATE_HOME", self.state())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", home.join(".gitconfig"))
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "true")
            .env("LC_ALL", "C.UTF-8")
            .envs(DEFAULT_SETS.iter().map(|set| (set, &self.relay)))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        Ok(command)
    }

    fn path(&self) -> Result<OsString> {
        let inherited = env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(self.programs.clone()).chain(env::split_paths(&inherited));
        env::join_paths(dirs).context("a directory of PATH cannot be named")
    }
}

/// A command that a person ran, and all it said.
#[derive(Debug)]
pub struct Step {
    command: String,
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Step {
    pub fn worked(&self) -> bool {
        self.status.success()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            command,
            status,
            stdout,
            stderr,
        } = self;
        write!(
            f,
            "{command}\n{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}"
        )
    }
}

/// The text without the sequences that move the cursor: they would wipe the report of a failure.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut pieces = text.split("\u{1b}[");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(piece.len(), |at| at + 1);
        out.push_str(&piece[end..]);
    }
    out
}
