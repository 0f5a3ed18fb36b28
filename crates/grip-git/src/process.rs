//! Starting git: one place, one clean environment, bounded threads and memory.
//!
//! Processes die with the node, however it ends: see [`starter`].

use std::{
    ffi::OsStr,
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use grip_types::Oid;
use rustix::process::{Pid, Signal, getpriority_process, kill_process_group, setpriority_process};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
};

use crate::memory::MemoryPermit;

mod starter;

use starter::Starter;

/// Oldest git that has all we rely on.
const OLDEST: (u32, u32) = (2, 37);
/// From here on objects are sent from several packs as they lie.
const REUSES_MANY_PACKS: (u32, u32) = (2, 44);
/// Threads of one process; each has its own window of objects in memory.
const MAX_THREADS: usize = 4;
/// Memory that is counted but hardly touched: stacks of threads, and what the allocator rounds up.
const OVERHEAD: u64 = 64 << 20;
/// How much a process for which no client waits gives way to the rest.
const NICENESS: i32 = 10;
/// Ids handed to git at a time.
const BATCH: usize = 1024;
/// What is kept of what git says on its standard error; the rest is read and dropped.
const MAX_STDERR: usize = 16 << 10;

/// Why there is no git to work with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitMissing {
    #[error("cannot run {}: install git, or name it with git_program", .git.display())]
    NotStarted { git: PathBuf, source: io::Error },
    #[error("{} does not say which version it is: {said:?}", .git.display())]
    Unreadable { git: PathBuf, said: String },
    #[error("git {}.{} is too old, 2.37 is needed: install a newer one, or name it with git_program", .0.0, .0.1)]
    TooOld((u32, u32)),
}

/// What a walk begins with, and what it leaves out with all that it leads to.
pub(crate) fn walk_input(
    from: impl IntoIterator<Item = Oid>,
    not: impl IntoIterator<Item = Oid>,
) -> impl Iterator<Item = Vec<u8>> {
    let from = from.into_iter().map(|oid| format!("{oid}\n"));
    let not = not.into_iter().map(|oid| format!("^{oid}\n"));
    let mut lines = from.chain(not);
    std::iter::from_fn(move || {
        let batch: String = lines.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then(|| batch.into_bytes())
    })
}

/// The git program, known to be new enough.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    binary: PathBuf,
    home: PathBuf,
    version: (u32, u32),
    threads: String,
    starter: Starter,
}

impl Git {
    /// Asks the program for its version. Blocking.
    pub(crate) fn find(binary: &Path, home: &Path) -> Result<Self, GitMissing> {
        let failed = |source| GitMissing::NotStarted {
            git: binary.to_owned(),
            source,
        };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut git = Self {
            binary: in_path(binary).unwrap_or_else(|| binary.to_owned()),
            home: home.to_owned(),
            version: OLDEST,
            threads: format!("pack.threads={}", processors.min(MAX_THREADS)),
            starter: Starter::new().map_err(failed)?,
        };
        let output = git.command(["version"]).output().map_err(failed)?;
        let said = String::from_utf8_lossy(&output.stdout);
        git.version = parse_version(&said).ok_or_else(|| GitMissing::Unreadable {
            git: binary.to_owned(),
            said: said.trim().chars().take(80).collect(),
        })?;
        if git.version < OLDEST {
            return Err(GitMissing::TooOld(git.version));
        }
        Ok(git)
    }

    /// How packs are reused as they lie when objects are sent.
    pub(crate) fn pack_reuse(&self) -> &'static str {
        if self.version >= REUSES_MANY_PACKS {
            "pack.allowPackReuse=multi"
        } else {
            "pack.allowPackReuse=true"
        }
    }

    /// A command that inherits nothing but `PATH`, reads no configuration but the repository's
    /// and runs in a process group of its own.
    pub(crate) fn command<A>(&self, arguments: impl IntoIterator<Item = A>) -> std::process::Command
    where
        A: AsRef<OsStr>,
    {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that builds a command, with its clean environment"
        )]
        let mut command = std::process::Command::new(&self.binary);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .args(["-c", "safe.directory=*"])
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(["-c", "core.bigFileThreshold=32m"])
            .args(["-c", "pack.windowMemory=64m"])
            .args(["-c", "pack.deltaCacheSize=64m"])
            .args(["-c", &self.threads])
            .args(arguments)
            .stdin(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// Starts a command that may take as much memory as `memory` says, which the caller keeps for
    /// as long as it runs. Processors go to those first for whom a client waits.
    pub(crate) async fn start(
        &self,
        command: std::process::Command,
        memory: &MemoryPermit,
    ) -> io::Result<Running> {
        let running = self.starter.start(command).await?;
        running.limit_memory(memory);
        if memory.payer().gives_way() {
            running.lower_priority();
        }
        Ok(running)
    }

    /// Runs a command to its end. Cancel safe: dropping the future kills it.
    pub(crate) async fn run(
        &self,
        mut command: std::process::Command,
        memory: &MemoryPermit,
    ) -> io::Result<Finished> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = self.start(command, memory).await?;
        let (stdout, stderr) = (running.stdout(), running.stderr());
        let (stdout, stderr) = tokio::try_join!(read_bounded(stdout), read_bounded(stderr))?;
        let status = running.wait().await?;
        Ok(Finished {
            status,
            stdout,
            stderr,
        })
    }

    /// A walk over objects, which reads [`walk_input`] and writes the id of each on a line.
    pub(crate) fn walk(&self) -> std::process::Command {
        self.command([
            "rev-list",
            "--objects",
            "--no-object-names",
            "--ignore-missing",
            "--stdin",
        ])
    }

    /// Runs a command that reads `input`, and hands its output on as it comes.
    ///
    /// What it says on its standard error is kept as [`Git::run`] keeps it. Cancel safe as well.
    pub(crate) async fn run_with(
        &self,
        mut command: std::process::Command,
        memory: &MemoryPermit,
        input: impl Iterator<Item = Vec<u8>>,
        mut output: impl FnMut(&[u8]),
        max_file_bytes: u64,
    ) -> io::Result<Finished> {
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = self.start(command, memory).await?;
        running.limit_file_size(max_file_bytes);
        let (stdin, stdout, stderr) = (running.stdin(), running.stdout(), running.stderr());
        let missing = || io::Error::other("git has no pipes");
        let (mut stdin, mut stdout) = (stdin.ok_or_else(missing)?, stdout.ok_or_else(missing)?);
        let write = async move {
            for chunk in input {
                if stdin.write_all(&chunk).await.is_err() {
                    // Git has ended: its exit status says more than the pipe.
                    break;
                }
            }
            Ok(())
        };
        let read = async move {
            let mut chunk = vec![0; 64 << 10];
            loop {
                match stdout.read(&mut chunk).await? {
                    0 => return Ok(()),
                    read => output(&chunk[..read]),
                }
            }
        };
        let ((), (), stderr) = tokio::try_join!(write, read, read_bounded(stderr))?;
        let status = running.wait().await?;
        Ok(Finished {
            status,
            stdout: String::new(),
            stderr,
        })
    }
}

/// Looks a bare name up once, instead of at every start of a process.
fn in_path(binary: &Path) -> Option<PathBuf> {
    if binary.components().count() != 1 {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let is_program = |file: &PathBuf| {
        let mode = file
            .metadata()
            .map(|found| (found.is_file(), found.permissions().mode()));
        mode.is_ok_and(|(is_file, mode)| is_file && mode & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|directory| directory.join(binary))
        .find(is_program)
}

fn parse_version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// A running git; dropping it kills its whole process group.
pub(crate) struct Running {
    child: Child,
    /// The thread that started it, which must not end before it.
    _starter: Starter,
}

impl Running {
    pub(crate) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(crate) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Bounds the memory that it may take for itself; where the system cannot, there is no bound.
    pub(crate) fn limit_memory(&self, memory: &MemoryPermit) {
        if let Some(process) = self.id() {
            limit_memory_of(process, memory);
        }
    }

    /// Has it give way to everything else on this machine that wants a processor.
    fn lower_priority(&self) {
        if let Some(process) = self.id()
            && let Err(error) = getpriority_process(None)
                .and_then(|own| setpriority_process(Some(process), own + NICENESS))
        {
            tracing::debug!(%error, "git keeps its priority");
        }
    }

    /// Bounds each file that it may write, in the same way: a few bytes of a delta may stand for a
    /// copy of its base.
    pub(crate) fn limit_file_size(&self, bytes: u64) {
        #[cfg(target_os = "linux")]
        self.limit(rustix::process::Resource::Fsize, bytes);
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
    }

    #[cfg(target_os = "linux")]
    fn limit(&self, resource: rustix::process::Resource, bytes: u64) {
        use rustix::process::{Rlimit, prlimit};
        let limit = Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        if let Some(process) = self.id()
            && let Err(error) = prlimit(Some(process), resource, limit)
        {
            tracing::debug!(%error, ?resource, "git is not bounded");
        }
    }

    /// There until the child is reaped, so it cannot have gone to another process.
    pub(crate) fn id(&self) -> Option<Pid> {
        self.child.id().and_then(|id| Pid::from_raw(id as i32))
    }

    /// Ends the group now; [`Self::wait`] then returns.
    pub(crate) fn kill(&self) {
        if let Some(group) = self.id() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Lets a process that runs take as much memory as `memory` has become.
#[cfg(target_os = "linux")]
pub(crate) fn limit_memory_of(process: Pid, memory: &MemoryPermit) {
    use rustix::process::{Resource, Rlimit, prlimit};
    let limit = Rlimit {
        current: Some(memory.bytes() + OVERHEAD),
        // The permit may grow, and what was lowered once can never be raised.
        maximum: Some(memory.most() + OVERHEAD),
    };
    if let Err(error) = prlimit(Some(process), Resource::Data, limit) {
        tracing::debug!(%error, "the memory of git is not bounded");
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn limit_memory_of(_: Pid, _: &MemoryPermit) {}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads to the end, but keeps only the first [`MAX_STDERR`] bytes.
pub(crate) async fn read_bounded(source: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(mut source) = source else {
        return Ok(String::new());
    };
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let read = source.read(&mut chunk).await?;
        if read == 0 {
            return Ok(String::from_utf8_lossy(&kept).into_owned());
        }
        let room = MAX_STDERR - kept.len();
        kept.extend_from_slice(&chunk[..read.min(room)]);
    }
}

/// What a git command that needs no input said.
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryBudget, Payer};

    #[test]
    fn versions_are_read_with_their_suffixes() {
        assert_eq!(parse_version("git version 2.47.3\n"), Some((2, 47)));
        assert_eq!(
            parse_version("git version 2.39.5 (Apple Git-154)"),
            Some((2, 39))
        );
        assert_eq!(parse_version("git version 2.51.0.windows.1"), Some((2, 51)));
        assert_eq!(parse_version("hub version 2"), None);
    }

    #[test]
    fn a_missing_program_is_named() {
        let missing = Git::find(Path::new("/nonexistent/git"), Path::new("/"));
        assert!(matches!(missing, Err(GitMissing::NotStarted { .. })));
    }

    #[tokio::test]
    async fn what_no_client_waits_for_gives_way_to_the_rest() {
        let git = Git::find(Path::new("git"), Path::new("/")).unwrap();
        let budget = MemoryBudget::new(1 << 30);
        let identifier = grip_types::Identifier::parse("name").unwrap();
        let mut priorities = Vec::new();
        for payer in [
            Payer::Unknown,
            Payer::Fetch,
            Payer::Maintenance,
            Payer::Pages,
        ] {
            let memory = budget.acquire(payer, &identifier, 1 << 20).await.unwrap();
            let mut command = git.command(["hash-object", "--stdin"]);
            command.stdin(Stdio::piped());
            let running = git.start(command, &memory).await.unwrap();
            let priority = getpriority_process(running.id());
            priorities.push(priority.unwrap());
        }
        let usual = priorities[0];
        assert!(priorities[1..].iter().all(|p| *p > usual), "{priorities:?}");
    }
}
