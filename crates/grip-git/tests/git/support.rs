//! A root of repositories, a work tree to push from, and git to compare with.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use grip_git::{
    ObjectKind, Options, Quarantine, ReceiveError, RefSnapshot, RefUpdateError, Repositories,
};
use grip_types::{Identifier, Oid, RefEdit, RefName, RepoAddr};
use tempfile::TempDir;

pub const ALICE: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
pub const BOB: &str = "npub1ccz8l9zpa47k6vz9gphftsrumpw80rjt3nhnefat4symjhrsnmjs38mnyd";

pub struct Sandbox {
    pub dir: TempDir,
    pub repositories: Repositories,
}

impl std::ops::Deref for Sandbox {
    type Target = Repositories;

    fn deref(&self) -> &Repositories {
        &self.repositories
    }
}

/// A sandbox with one empty repository.
pub fn empty() -> (Sandbox, RepoAddr) {
    let (sandbox, repo) = (Sandbox::new(), repo(ALICE, "project"));
    sandbox.create(&repo).unwrap();
    (sandbox, repo)
}

impl Sandbox {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = TempDir::new().unwrap();
        let repositories = open(dir.path(), change);
        Self { dir, repositories }
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("git")
    }

    /// The same root, opened as after a restart.
    pub fn reopen(&mut self) {
        self.reopen_with(|_| {});
    }

    pub fn reopen_with(&mut self, change: impl FnOnce(&mut Options)) {
        self.repositories = open(self.dir.path(), change);
    }

    /// A repository with the history of `work` and its refs.
    pub async fn published(work: &Work) -> (Self, RepoAddr) {
        let (sandbox, repo) = empty();
        sandbox.publish(&repo, work).await;
        (sandbox, repo)
    }

    /// Brings all of `work` into `repo`.
    pub async fn publish(&self, repo: &RepoAddr, work: &Work) {
        let pack = work.pack("", &["--all"]);
        self.promote(repo, &pack).await;
        let edits: Vec<RefEdit> = work.refs().into_iter().map(|(n, o)| set(&n, o)).collect();
        self.set(repo, &edits).unwrap();
    }

    pub async fn receive(&self, repo: &RepoAddr, pack: &[u8]) -> Result<Quarantine, ReceiveError> {
        self.repositories.receive(&repo.identifier, pack).await
    }

    /// Promotes what `name` at `tip` rests on, if anything of it is staged.
    pub async fn promote_staged(
        &self,
        repo: &RepoAddr,
        name: &RefName,
        tip: &Oid,
    ) -> Result<bool, ReceiveError> {
        let prepared = self.repositories.prepare_staged(repo, name, tip).await?;
        let is_staged = prepared.is_some();
        if let Some(prepared) = prepared {
            prepared.promote().unwrap();
        }
        Ok(is_staged)
    }

    pub async fn promote(&self, repo: &RepoAddr, pack: &[u8]) {
        self.receive(repo, pack).await.unwrap().promote().unwrap();
    }

    /// Removes every pack, as a broken disk might.
    pub fn lose_packs(&self, identifier: &Identifier) {
        let packs = self.store(identifier).join("objects/pack");
        for name in names_in(&packs) {
            std::fs::remove_file(packs.join(name)).unwrap();
        }
    }

    pub fn path(&self, repo: &RepoAddr) -> PathBuf {
        let name = format!("{}.git", repo.identifier.encoded());
        self.root().join(repo.npub()).join(name)
    }

    pub fn store(&self, identifier: &Identifier) -> PathBuf {
        let name = format!("{}.git", identifier.encoded());
        self.root().join(".objects").join(name)
    }

    pub fn packs(&self, identifier: &Identifier) -> Vec<String> {
        let names = names_in(&self.store(identifier).join("objects/pack"));
        names.into_iter().filter(|n| n.ends_with(".pack")).collect()
    }

    /// Nothing received is left; empty directories may wait for the next pack.
    pub fn assert_quarantine_is_empty(&self) {
        let quarantine = self.root().join(".quarantine");
        for spare in names_in(&quarantine) {
            assert_eq!(names_in(&quarantine.join(&spare)), ["pack"]);
            assert_eq!(names_in(&quarantine.join(&spare).join("pack")), [""; 0]);
        }
    }

    pub fn kind(&self, repo: &RepoAddr, oid: Oid) -> Option<ObjectKind> {
        self.repositories.kinds(&repo.identifier, &[oid]).unwrap()[0]
    }

    /// Makes edits from wherever the refs are.
    pub fn set(
        &self,
        repo: &RepoAddr,
        edits: &[RefEdit],
    ) -> Result<std::sync::Arc<RefSnapshot>, RefUpdateError> {
        let refs = self.repositories.refs(repo)?;
        let mut edits = edits.to_vec();
        for edit in &mut edits {
            edit.old = refs.get(&edit.name).map(|found| found.oid);
        }
        self.repositories.update_refs(repo, &edits, None)
    }
}

pub fn open(dir: &Path, change: impl FnOnce(&mut Options)) -> Repositories {
    let mut options = Options::new(dir.join("git"));
    change(&mut options);
    Repositories::open(options).unwrap()
}

/// The names in a directory, by order; none if it is not there.
pub fn names_in(dir: &Path) -> Vec<String> {
    let listing = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        listing => listing.unwrap(),
    };
    let mut names: Vec<String> = listing
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn repo(npub: &str, identifier: &str) -> RepoAddr {
    RepoAddr::new(
        RepoAddr::parse_npub(npub).unwrap(),
        Identifier::parse(identifier).unwrap(),
    )
}

pub fn name(text: &str) -> RefName {
    RefName::parse(text).unwrap()
}

pub fn set(text: &str, oid: Oid) -> RefEdit {
    RefEdit {
        name: name(text),
        old: None,
        new: Some(oid),
    }
}

pub fn delete(text: &str) -> RefEdit {
    RefEdit {
        name: name(text),
        old: None,
        new: None,
    }
}

/// Runs git as a user would, without this machine's configuration.
pub fn git(dir: &Path, arguments: &[&str]) -> String {
    let (said, complaint) = try_git(dir, arguments, b"");
    let said = said.unwrap_or_else(|| panic!("git {arguments:?}: {complaint}"));
    String::from_utf8(said).unwrap().trim_end().to_owned()
}

pub fn try_git(dir: &Path, arguments: &[&str], input: &[u8]) -> (Option<Vec<u8>>, String) {
    let output = run_git(dir, arguments, input, &[]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success().then_some(output.stdout), complaint)
}

pub fn run_git(
    dir: &Path,
    arguments: &[&str],
    input: &[u8],
    environment: &[(&str, &str)],
) -> Output {
    #[expect(clippy::disallowed_methods, reason = "tests compare with git itself")]
    let mut command = Command::new("git");
    let mut child = command
        .current_dir(dir)
        .args(arguments)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "Alice")
        .env("GIT_AUTHOR_EMAIL", "alice@example.com")
        .env("GIT_COMMITTER_NAME", "Alice")
        .env("GIT_COMMITTER_EMAIL", "alice@example.com")
        .env("LC_ALL", "C")
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = std::io::Write::write_all(&mut stdin, input);
        });
        child.wait_with_output().unwrap()
    })
}

/// A work tree to push from.
pub struct Work {
    pub dir: TempDir,
}

impl Work {
    pub fn new() -> Self {
        let dir = TempDir::new().unwrap();
        git(dir.path(), &["init", "--quiet", "--initial-branch=main"]);
        Self { dir }
    }

    /// Two branches, a light tag, an annotated tag and a tag of a tag.
    pub fn example() -> Self {
        let work = Self::new();
        work.commit("a.txt", "one\n");
        work.commit("b.txt", "two\n");
        work.git(&["tag", "light"]);
        work.git(&["tag", "--annotate", "--message=first", "v1"]);
        work.git(&["tag", "--annotate", "--message=nested", "v1-again", "v1"]);
        work.git(&["branch", "dev", "HEAD~1"]);
        work.commit("dir/c.txt", "three\n");
        work
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(self.dir.path(), arguments)
    }

    pub fn commit(&self, file: &str, contents: &str) -> Oid {
        let path = self.dir.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", file]);
        self.oid("HEAD")
    }

    pub fn oid(&self, revision: &str) -> Oid {
        self.git(&["rev-parse", revision]).parse().unwrap()
    }

    /// Writes an object that git itself would not.
    pub fn write_object(&self, kind: &str, contents: &[u8]) -> Oid {
        let arguments = ["hash-object", "-w", "-t", kind, "--literally", "--stdin"];
        let (said, complaint) = try_git(self.dir.path(), &arguments, contents);
        let said = said.unwrap_or_else(|| panic!("{complaint}"));
        String::from_utf8(said).unwrap().trim().parse().unwrap()
    }

    pub fn refs(&self) -> Vec<(String, Oid)> {
        let listed = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let line = |line: &str| {
            let (name, oid) = line.split_once(' ').unwrap();
            (name.to_owned(), oid.parse().unwrap())
        };
        listed.lines().map(line).collect()
    }

    /// A pack of all that `revisions` reach, as a push would send it.
    pub fn pack(&self, revisions: &str, extra: &[&str]) -> Vec<u8> {
        let mut arguments = vec!["pack-objects", "--quiet", "--stdout", "--revs"];
        arguments.extend(extra);
        let (pack, complaint) = try_git(self.dir.path(), &arguments, revisions.as_bytes());
        pack.unwrap_or_else(|| panic!("{complaint}"))
    }

    /// A pack of exactly these objects.
    pub fn pack_of(&self, oids: &[Oid]) -> Vec<u8> {
        let lines: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
        let arguments = ["pack-objects", "--quiet", "--stdout"];
        let (pack, complaint) = try_git(self.dir.path(), &arguments, lines.as_bytes());
        pack.unwrap_or_else(|| panic!("{complaint}"))
    }
}

/// What git itself says the refs of a repository are, tags peeled.
pub fn refs_by_git(path: &Path) -> Vec<String> {
    let (listed, _) = try_git(path, &["show-ref", "--dereference"], b"");
    let listed = String::from_utf8(listed.unwrap_or_default()).unwrap();
    listed.lines().map(str::to_owned).collect()
}

/// A snapshot in the form of [`refs_by_git`].
pub fn refs_by_us(snapshot: &RefSnapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for r in snapshot.iter() {
        lines.push(format!("{} {}", r.oid, r.name));
        lines.extend(r.peeled.map(|peeled| format!("{peeled} {}^{{}}", r.name)));
    }
    lines
}

pub fn assert_fsck_is_clean(path: &Path) {
    let (said, complaint) = try_git(path, &["fsck", "--full", "--strict", "--no-dangling"], b"");
    assert!(said.is_some(), "{complaint}");
    assert!(!complaint.contains("error"), "{complaint}");
}

/// The most memory that this process has had, in KiB.
pub fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

/// A program of a test's own, in place of git.
pub fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("git");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\nexec git \"$@\"\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Waits until `state` holds, for a while.
pub async fn eventually(what: &str, mut state: impl FnMut() -> bool) {
    for _ in 0..500 {
        if state() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}
