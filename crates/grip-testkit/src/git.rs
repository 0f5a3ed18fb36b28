//! Work trees driven by the real git.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, bail};
use tempfile::TempDir;

use crate::wait::until;

/// A git work tree in a temporary directory.
#[derive(Debug)]
pub struct WorkTree {
    path: PathBuf,
    _dir: TempDir,
}

/// What a git command printed and how it ended.
#[derive(Clone, Debug)]
pub struct GitOutput {
    pub ok: bool,
    pub stdout: String,
    pub stderr: String,
}

impl GitOutput {
    fn new(output: &Output) -> Self {
        Self {
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The trimmed output of a command that must have worked.
    pub fn text(self) -> Result<String> {
        if !self.ok {
            bail!("git failed: {}{}", self.stdout, self.stderr);
        }
        Ok(self.stdout.trim().to_owned())
    }
}

impl WorkTree {
    /// An empty repository with branch `main`.
    pub fn init() -> Result<Self> {
        let dir = TempDir::new()?;
        let tree = Self {
            path: dir.path().to_owned(),
            _dir: dir,
        };
        tree.git(["init", "-q", "-b", "main"])?;
        Ok(tree)
    }

    /// A repository with one commit on `main`.
    pub fn with_commit() -> Result<Self> {
        let tree = Self::init()?;
        tree.commit("README.md", "hello")?;
        Ok(tree)
    }

    /// Clones `url`, with further arguments before it.
    pub async fn clone(url: &str, args: &[&str]) -> Result<Self> {
        let dir = TempDir::new()?;
        let path = dir.path().join("clone");
        let mut all = vec!["clone", "-q"];
        all.extend(args);
        let target = path.to_str().context("temporary paths are UTF-8")?;
        all.extend([url, target]);
        run(dir.path(), all).await?.text()?;
        Ok(Self { path, _dir: dir })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git here and returns its output; fails if git does.
    pub fn git<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Result<String> {
        GitOutput::new(&command(&self.path, args).output()?).text()
    }

    /// Runs git here on another thread, so that a server in this process can answer it.
    pub async fn run<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Result<GitOutput> {
        run(&self.path, args).await
    }

    /// Writes `file` and commits it; returns the commit.
    pub fn commit(&self, file: &str, content: &str) -> Result<String> {
        let path = self.path.join(file);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
        self.git(["add", "-A"])?;
        self.git(["commit", "-q", "-m", &format!("change {file}")])?;
        self.tip("HEAD")
    }

    /// Commits `size_mib` of data that does not compress, in files of `file_mib`; every time the
    /// same.
    pub fn commit_noise(&self, size_mib: u64, file_mib: usize) -> Result<String> {
        self.commit_noise_of(0, size_mib, file_mib)
    }

    /// The same with other data for every seed.
    pub fn commit_noise_of(&self, seed: u64, size_mib: u64, file_mib: usize) -> Result<String> {
        // Noise can be neither compressed nor told by other noise: git is not to try.
        self.git(["config", "core.compression", "0"])?;
        self.git(["config", "core.bigFileThreshold", "512k"])?;
        // A generator of this kind never leaves zero, so the seed must not lead there.
        let mut state = 0x2545_f491_4f6c_dd1d_u64.wrapping_add(seed << 1);
        let mut word = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        for n in 0..size_mib.div_ceil(file_mib as u64) {
            let words = file_mib << 17;
            let mut block = Vec::with_capacity(words * 8);
            for _ in 0..words {
                // A word at a time: byte by byte takes minutes for gigabytes in a debug build.
                block.extend_from_slice(&word());
            }
            std::fs::write(self.path.join(format!("noise-{n:05}")), block)?;
        }
        self.git(["add", "-A"])?;
        self.git(["commit", "-q", "-m", "much data"])?;
        self.tip("HEAD")
    }

    /// The object id of `revision`.
    pub fn tip(&self, revision: &str) -> Result<String> {
        self.git(["rev-parse", revision])
    }

    /// Pushes `refspecs` to `url`.
    pub async fn push(&self, url: &str, refspecs: &[&str]) -> Result<GitOutput> {
        let mut args = vec!["push", url];
        args.extend(refspecs);
        self.run(args).await
    }

    /// The same for a push that must be taken.
    pub async fn push_ok(&self, url: &str, refspecs: &[&str]) -> Result<()> {
        self.push(url, refspecs).await?.text().map(drop)
    }
}

/// Lists the refs of `url` as `(name, oid)`, peeled lines included.
pub async fn ls_remote(url: &str) -> Result<Vec<(String, String)>> {
    let dir = TempDir::new()?;
    let text = run(dir.path(), ["ls-remote", url]).await?.text()?;
    let pair = |line: &str| {
        line.split_once('\t')
            .map(|(oid, name)| (name.into(), oid.into()))
    };
    Ok(text.lines().filter_map(pair).collect())
}

/// Waits until `name` is at `oid`.
pub async fn until_ref(url: &str, name: &str, oid: &str) -> Result<()> {
    let wanted = (name.to_owned(), oid.to_owned());
    until("the ref is there", || async {
        let refs = ls_remote(url).await.ok()?;
        refs.contains(&wanted).then_some(())
    })
    .await
}

/// The branches and tags of `url`, sorted.
pub async fn branches_and_tags(url: &str) -> Result<Vec<(String, String)>> {
    let mut refs = ls_remote(url).await?;
    refs.retain(|(name, _)| name.starts_with("refs/heads/") || name.starts_with("refs/tags/"));
    refs.sort();
    Ok(refs)
}

/// The branch that HEAD of `url` names.
pub async fn remote_head(url: &str) -> Result<Option<String>> {
    let dir = TempDir::new()?;
    let text = run(dir.path(), ["ls-remote", "--symref", url, "HEAD"])
        .await?
        .text()?;
    let target = |line: &str| {
        line.strip_prefix("ref: ")?
            .split_once('\t')
            .map(|(t, _)| t.into())
    };
    Ok(text.lines().find_map(target))
}

/// Runs git in `directory` with nothing of the user's configuration.
pub async fn run<'a>(
    directory: &Path,
    args: impl IntoIterator<Item = &'a str>,
) -> Result<GitOutput> {
    let output = tokio::process::Command::from(command(directory, args))
        .kill_on_drop(true)
        .output()
        .await
        .context("git must be installed")?;
    Ok(GitOutput::new(&output))
}

/// Prepares git with nothing of the user's configuration.
#[expect(clippy::disallowed_methods, reason = "tests drive the real git client")]
pub fn command<'a>(directory: &Path, args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C");
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "Ada")
            .env(format!("GIT_{who}_EMAIL"), "ada@example.com");
    }
    command
}
