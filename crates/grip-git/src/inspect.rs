//! Questions about history that git itself answers: blame, grep, the commits of a path, archives.
//!
//! Each is a process of low priority with a bound on its time, its output and its memory. Dropping
//! the future or the stream kills it.

use std::{collections::HashMap, io, process::Stdio, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use grip_tasks::Permit;
use grip_types::{Identifier, Oid, RefName, RepoAddr};
use tokio::{
    io::AsyncReadExt as _,
    process::ChildStdout,
    time::{self, Instant},
};

use crate::{
    memory::{MemoryFull, MemoryPermit, Payer},
    process::{Running, read_bounded},
    repositories::{RepoError, Repositories},
    upload_pack::PackStream,
};

/// Bytes read from a pipe at once.
const CHUNK: usize = 64 << 10;

/// What an answer may cost.
#[derive(Clone, Copy, Debug)]
pub struct InspectBounds {
    pub time: Duration,
    /// Of its output; what is beyond is cut off.
    pub bytes: usize,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    #[error(transparent)]
    Repo(#[from] RepoError),
    #[error("git cannot be run")]
    Io(#[from] io::Error),
    #[error("it takes longer than {0:?}")]
    TooSlow(Duration),
    #[error(transparent)]
    Busy(#[from] MemoryFull),
    #[error("git failed: {0}")]
    Failed(String),
}

/// The lines of a file with the commits that they come from.
#[derive(Clone, Debug, Default)]
pub struct Blame {
    pub commits: HashMap<Oid, BlamedCommit>,
    pub lines: Vec<BlamedLine>,
    /// There are more lines than were read.
    pub is_cut: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlamedCommit {
    pub author: String,
    pub at_ms: i64,
    pub subject: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlamedLine {
    pub commit: Oid,
    pub text: String,
}

/// A line that holds what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepMatch {
    pub path: String,
    pub line: usize,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFormat {
    TarGz,
    Zip,
}

struct Output {
    bytes: Vec<u8>,
    is_cut: bool,
    /// None for a process that was ended at a bound.
    code: Option<i32>,
    complaint: String,
}

impl Repositories {
    /// The commits that change `path`, newest first, from `commit` on.
    pub async fn path_history(
        &self,
        repo: &RepoAddr,
        commit: &Oid,
        path: &str,
        (skip, take): (usize, usize),
        bounds: InspectBounds,
    ) -> Result<Vec<Oid>, InspectError> {
        let commit = commit.to_hex();
        let (skip, take) = (format!("--skip={skip}"), format!("--max-count={take}"));
        let words = ["rev-list", &skip, &take, &commit, "--", path];
        let output = self.inspect(repo, &words, bounds).await?;
        let text = String::from_utf8_lossy(output.whole()?);
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// The commit where two lines of history part; `None` if they never met.
    pub async fn merge_base(
        &self,
        repo: &RepoAddr,
        one: &Oid,
        other: &Oid,
        bounds: InspectBounds,
    ) -> Result<Option<Oid>, InspectError> {
        let (one, other) = (one.to_hex(), other.to_hex());
        let output = self
            .inspect(repo, &["merge-base", &one, &other], bounds)
            .await?;
        let text = String::from_utf8_lossy(output.ended(&[0, 1])?);
        Ok(text.lines().next().and_then(|line| line.parse().ok()))
    }

    /// The commits of `tip` that `base` does not have, newest first.
    pub async fn commits_between(
        &self,
        repo: &RepoAddr,
        base: &Oid,
        tip: &Oid,
        max: usize,
        bounds: InspectBounds,
    ) -> Result<Vec<Oid>, InspectError> {
        let (max, base) = (format!("--max-count={max}"), format!("^{}", base.to_hex()));
        let words = ["rev-list", &max, &tip.to_hex(), &base];
        let output = self.inspect(repo, &words, bounds).await?;
        let text = String::from_utf8_lossy(output.whole()?);
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// How many commits each of the first `max` branches is ahead of `base` and behind it; empty
    /// where git is older than 2.41, which cannot say.
    pub async fn ahead_behind(
        &self,
        repo: &RepoAddr,
        base: &Oid,
        max: usize,
        bounds: InspectBounds,
    ) -> Result<HashMap<RefName, (usize, usize)>, InspectError> {
        let (count, format) = (
            format!("--count={max}"),
            format!("--format=%(ahead-behind:{}) %(refname)", base.to_hex()),
        );
        let words = ["for-each-ref", &count, &format, "refs/heads/"];
        let output = self.inspect(repo, &words, bounds).await?;
        if output.code != Some(0) {
            tracing::debug!(complaint = output.complaint, "git counts no commits");
            return Ok(HashMap::new());
        }
        let text = String::from_utf8_lossy(&output.bytes);
        Ok(text.lines().filter_map(counted).collect())
    }

    /// Where each line of a file comes from.
    pub async fn blame(
        &self,
        repo: &RepoAddr,
        commit: &Oid,
        path: &str,
        bounds: InspectBounds,
    ) -> Result<Blame, InspectError> {
        let words = ["blame", "--porcelain", &commit.to_hex(), "--", path];
        let output = self.inspect(repo, &words, bounds).await?;
        let mut blame = parse_blame(output.ended(&[0])?);
        blame.is_cut = output.is_cut;
        Ok(blame)
    }

    /// The lines of a commit's files that hold `text`, in either case of its letters.
    pub async fn grep(
        &self,
        repo: &RepoAddr,
        commit: &Oid,
        text: &str,
        bounds: InspectBounds,
    ) -> Result<(Vec<GrepMatch>, bool), InspectError> {
        let commit = commit.to_hex();
        let words = [
            "grep",
            "--no-color",
            "--threads=1",
            "-n",
            "-z",
            "-I",
            "-i",
            "-F",
            "-e",
            text,
            &commit,
        ];
        let output = self.inspect(repo, &words, bounds).await?;
        let prefix = format!("{commit}:");
        let lines = output.ended(&[0, 1])?.split(|byte| *byte == b'\n');
        let matches = lines.filter_map(|line| grep_match(line, &prefix)).collect();
        Ok((matches, output.is_cut))
    }

    /// All files of a commit in one, below the directory `prefix`. An archive that is larger or
    /// takes longer than `bounds` ends with an error of the stream.
    pub async fn archive_files(
        &self,
        repo: &RepoAddr,
        commit: &Oid,
        format: ArchiveFormat,
        prefix: &str,
        bounds: InspectBounds,
    ) -> Result<PackStream, InspectError> {
        let in_use = self.inner.packs.borrow(&repo.identifier);
        let prefix = format!("--prefix={prefix}/");
        let format = match format {
            ArchiveFormat::TarGz => "--format=tar.gz",
            ArchiveFormat::Zip => "--format=zip",
        };
        let words = ["archive", format, &prefix, &commit.to_hex()];
        let (running, stdout, memory) = self.start(repo, &words).await?;
        let reading = Reading {
            running,
            stdout,
            _memory: memory,
            left: bounds.bytes,
            deadline: Instant::now() + bounds.time,
            _in_use: in_use,
        };
        Ok(Box::pin(stream::try_unfold(reading, |mut reading| async {
            let chunk = reading.chunk().await?;
            Ok(chunk.map(|chunk| (chunk, reading)))
        })))
    }

    async fn start(
        &self,
        repo: &RepoAddr,
        words: &[&str],
    ) -> Result<(Running, ChildStdout, MemoryPermit), InspectError> {
        let inner = &self.inner;
        if !repo.is_contributor() {
            inner.packs.count_request(&repo.identifier);
            self.warm_later(&repo.identifier).await?;
        }
        let mut command = inner.git.command(words);
        command
            .env("GIT_DIR", inner.layout.repository(repo))
            .env("GIT_LITERAL_PATHSPECS", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let bytes = inner.packs.size(&repo.identifier)?.memory_to_read();
        let memory = inner
            .memory
            .acquire(Payer::Pages, &repo.identifier, bytes)
            .await?;
        let mut running = inner.git.start(command, &memory).await?;
        let stdout = running.stdout();
        let stdout = stdout.ok_or_else(|| io::Error::other("git has no standard output"))?;
        Ok((running, stdout, memory))
    }

    /// Runs a command to its end or to a bound.
    async fn inspect(
        &self,
        repo: &RepoAddr,
        words: &[&str],
        bounds: InspectBounds,
    ) -> Result<Output, InspectError> {
        let _in_use = self.inner.packs.borrow(&repo.identifier);
        let started = time::timeout(bounds.time, self.start(repo, words)).await;
        let started = started.map_err(|_| InspectError::TooSlow(bounds.time))?;
        let (mut running, mut stdout, _memory) = started?;
        let stderr = running.stderr();
        let mut bytes = Vec::new();
        let read = async {
            let mut limited = (&mut stdout).take(bounds.bytes as u64 + 1);
            limited.read_to_end(&mut bytes).await?;
            let is_cut = bytes.len() > bounds.bytes;
            if is_cut {
                bytes.truncate(bounds.bytes);
                running.kill();
            }
            Ok::<_, io::Error>(is_cut)
        };
        let both = async { tokio::try_join!(read, read_bounded(stderr)) };
        let (is_cut, complaint) = time::timeout(bounds.time, both)
            .await
            .map_err(|_| InspectError::TooSlow(bounds.time))??;
        let code = running.wait().await?.code();
        Ok(Output {
            bytes,
            is_cut,
            code,
            complaint,
        })
    }
}

impl Output {
    /// The output of a command that succeeded.
    fn whole(&self) -> Result<&[u8], InspectError> {
        self.ended(&[0])
    }

    /// The output of a command that ended with one of `codes`, or that had too much to say.
    fn ended(&self, codes: &[i32]) -> Result<&[u8], InspectError> {
        let is_fine = self.is_cut || self.code.is_some_and(|code| codes.contains(&code));
        if is_fine {
            return Ok(&self.bytes);
        }
        let complaint = self.complaint.lines().next().unwrap_or("it was killed");
        Err(InspectError::Failed(complaint.to_owned()))
    }
}

/// An archive on its way out.
struct Reading {
    running: Running,
    stdout: ChildStdout,
    left: usize,
    deadline: Instant,
    _memory: MemoryPermit,
    /// Git may read the objects to the last moment.
    _in_use: Permit<Identifier>,
}

impl Reading {
    async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        let read = time::timeout_at(self.deadline, self.stdout.read_buf(&mut buffer)).await;
        match read.map_err(|_| io::ErrorKind::TimedOut)?? {
            0 => self.end().await.map(|()| None),
            read if read > self.left => Err(io::Error::other("the archive is too large")),
            read => {
                self.left -= read;
                Ok(Some(buffer.freeze()))
            }
        }
    }

    async fn end(&mut self) -> io::Result<()> {
        let status = time::timeout_at(self.deadline, self.running.wait()).await;
        let status = status.map_err(|_| io::ErrorKind::TimedOut)??;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other("git could not finish the archive"))
    }
}

/// Reads `3 1 refs/heads/topic`.
fn counted(line: &str) -> Option<(RefName, (usize, usize))> {
    let mut words = line.splitn(3, ' ');
    let (ahead, behind) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some((RefName::parse(words.next()?).ok()?, (ahead, behind)))
}

fn grep_match(line: &[u8], prefix: &str) -> Option<GrepMatch> {
    let line = line.strip_prefix(prefix.as_bytes())?;
    let mut fields = line.splitn(3, |byte| *byte == 0);
    let path = std::str::from_utf8(fields.next()?).ok()?.to_owned();
    let line = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let text = String::from_utf8_lossy(fields.next()?).into_owned();
    Some(GrepMatch { path, line, text })
}

/// Reads `git blame --porcelain`: a header a line, and facts of each commit at its first.
fn parse_blame(output: &[u8]) -> Blame {
    let mut blame = Blame::default();
    let mut current: Option<Oid> = None;
    for line in output.split(|byte| *byte == b'\n') {
        if let Some(text) = line.strip_prefix(b"\t") {
            let text = String::from_utf8_lossy(text).into_owned();
            blame
                .lines
                .extend(current.map(|commit| BlamedLine { commit, text }));
            continue;
        }
        let line = String::from_utf8_lossy(line);
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        if let Ok(oid) = word.parse::<Oid>() {
            current = Some(oid);
            blame.commits.entry(oid).or_default();
            continue;
        }
        let Some(facts) = current.and_then(|oid| blame.commits.get_mut(&oid)) else {
            continue;
        };
        match word {
            "author" => facts.author = rest.to_owned(),
            "author-time" => {
                let seconds: i64 = rest.parse().unwrap_or(0);
                facts.at_ms = seconds.saturating_mul(1000);
            }
            "summary" => facts.subject = rest.to_owned(),
            _ => {}
        }
    }
    blame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blame_names_a_commit_for_every_line() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let text = format!(
            "{one} 1 1 1\nauthor Ada <b>\nauthor-time 5\nsummary first\nfilename a\n\tx\n\
             {two} 2 2 1\nauthor Bo\nauthor-time no\nsummary second\nfilename a\n\t\ty\n\
             {one} 2 3\n\tz\n"
        );
        let blame = parse_blame(text.as_bytes());
        let lines: Vec<_> = blame.lines.iter().map(|line| &*line.text).collect();
        assert_eq!(lines, ["x", "\ty", "z"]);
        let first = &blame.commits[&blame.lines[2].commit];
        assert_eq!((&*first.author, first.at_ms), ("Ada <b>", 5000));
        assert_eq!(blame.commits[&blame.lines[1].commit].at_ms, 0);
    }

    #[test]
    fn a_match_is_read_whatever_its_path_is_called() {
        let found = grep_match(b"c0:a: b\x0017\0 text: \0x", "c0:").unwrap();
        assert_eq!((&*found.path, found.line), ("a: b", 17));
        assert_eq!(found.text, " text: \0x");
        assert_eq!(grep_match(b"Binary file c0:x matches", "c0:"), None);
        assert_eq!(counted("3 1 refs/heads/a").unwrap().1, (3, 1));
    }
}
