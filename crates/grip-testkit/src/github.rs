//! A GitHub that counts what it is asked, keeps its limits, and misbehaves when told to.
//!
//! What it holds is made up and can be changed at any time; paths, headers, pages, limits and
//! refusals are those of GitHub's REST API. Of GraphQL it knows the queries of our gateway by their
//! names, answers them from their variables, and charges points for them. Invariants: a call without a change of what it asked
//! about (304) costs nothing; every other call that is let through costs one of its token's
//! budget; a call beyond the budget is refused and counted as such.

mod behaviour;
mod events;
mod git_server;
mod graphql;
mod limits;
mod listing;
mod record;
mod repositories;
mod routes;
mod service;
#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use tempfile::TempDir;
use tokio::task::JoinSet;

pub use self::{
    behaviour::Behaviour,
    git_server::pack_of,
    limits::{Counts, Limits},
    record::Seen,
    repositories::Repo,
};
use self::{behaviour::Scripts, limits::LimitState, repositories::Repositories};
use crate::{WorkTree, listener, record::Record, remote::Gate};

/// A running GitHub; it ends when dropped.
#[derive(Debug)]
pub struct FakeGitHub {
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
    _port: Option<std::net::TcpListener>,
}

/// What is settled when it starts.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The tokens that are known; any other is answered with 401.
    pub tokens: Vec<String>,
    /// Where the API begins: empty, or `/api/v3` as on a GitHub Enterprise.
    pub base: String,
    pub limits: Limits,
}

#[derive(Debug)]
struct Shared {
    address: SocketAddr,
    base: String,
    /// Where its git server finds bare repositories.
    git_root: TempDir,
    repositories: Mutex<Repositories>,
    books: Mutex<LimitState>,
    record: Record<Seen>,
    scripts: Scripts,
}

impl Shared {
    fn repositories(&self) -> MutexGuard<'_, Repositories> {
        self.repositories
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn books(&self) -> MutexGuard<'_, LimitState> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The API's URL, without a slash at the end.
    fn root(&self) -> String {
        format!("http://{}{}", self.address, self.base)
    }
}

impl FakeGitHub {
    /// An empty GitHub on a loopback address such as `127.0.0.9`, for callers without a token.
    pub async fn start(address: &str) -> Result<Self> {
        Self::with(address, Setup::default()).await
    }

    /// A GitHub Enterprise, which lists are read from every second; a budget of calls or none.
    pub async fn enterprise(address: &str, unmetered: bool) -> Result<Self> {
        let setup = Setup {
            base: "/api/v3".into(),
            limits: Limits {
                unmetered,
                ..Limits::default()
            },
            ..Setup::default()
        };
        let github = Self::with(address, setup).await?;
        github.set_poll_interval(1);
        Ok(github)
    }

    pub async fn with(address: &str, setup: Setup) -> Result<Self> {
        let (listener, port) = listener::bind(address).await?;
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            base: setup.base,
            git_root: TempDir::new()?,
            repositories: Mutex::default(),
            books: Mutex::new(LimitState::new(setup.limits, setup.tokens)),
            record: Record::default(),
            scripts: Scripts::default(),
        });
        Ok(Self {
            _serving: listener::serve(listener, Arc::clone(&shared), service::respond),
            shared,
            _port: port,
        })
    }

    /// The URL of the API, with a slash at the end.
    pub fn api(&self) -> String {
        format!("{}/", self.shared.root())
    }

    /// A list (`/orgs/acme`) as settings name it, where the API is below `/api/v3`.
    pub fn place(&self, list: &str) -> String {
        self.api().replace("/api/v3/", list)
    }

    /// Limits of a host that nobody reaches, as settings name them.
    pub fn wide_limits(&self) -> String {
        format!("{}=20/100000", self.domain())
    }

    /// The address without the port, as limits are counted by.
    pub fn domain(&self) -> String {
        self.shared.address.ip().to_string()
    }
}

/// What it holds. Names are `owner/name`; owners are organisations unless the repository says
/// otherwise.
impl FakeGitHub {
    /// Adds an empty public repository and returns its id.
    pub fn add(&self, full_name: &str) -> u64 {
        self.add_repo(Repo::new(full_name))
    }

    pub fn add_repo(&self, repo: Repo) -> u64 {
        self.shared.repositories().add(repo)
    }

    /// Adds `count` repositories `owner/repo-00000`, …, each with tags `v0.0.0`, `v0.1.0`, … and
    /// a `go.mod` that names it as a module below `github.com`.
    pub fn fill(&self, owner: &str, count: usize, tags_each: usize) {
        let mut repositories = self.shared.repositories();
        for n in 0..count {
            let name = format!("{owner}/repo-{n:05}");
            repositories.add(Repo::new(&name));
            let module = format!("module github.com/{name}\n");
            repositories.put_file(&name, None, "go.mod", module.into());
            for tag in 0..tags_each {
                let oid = repositories.commit(&name, None);
                repositories.tag(&name, &format!("v0.{tag}.0"), &oid);
            }
        }
    }

    /// Puts a tag object at a commit, made at this moment (seconds since 1970), and returns its id.
    pub fn annotate(&self, full_name: &str, tag: &str, oid: &str, at: i64) -> String {
        self.shared.repositories().annotate(full_name, tag, oid, at)
    }

    /// From now on the organisation denies tokens that are not authorised for its single sign-on, or
    /// does so no longer.
    pub fn require_sso(&self, owner: &str, is_required: bool) {
        self.shared.repositories().require_sso(owner, is_required);
    }

    /// Changes what is said about a repository; its name stays.
    pub fn change(&self, full_name: &str, change: impl FnOnce(&mut Repo)) {
        self.shared.repositories().change(full_name, change);
    }

    /// Removes a repository; from now on it is not found.
    pub fn remove(&self, full_name: &str) {
        self.shared.repositories().remove(full_name);
    }

    /// Gives a repository a new name; the old one is answered with 301.
    pub fn rename(&self, from: &str, to: &str) {
        self.shared.repositories().rename(from, to);
    }

    /// Makes a commit, at this moment if one is given (seconds since 1970), and returns its id.
    pub fn commit(&self, full_name: &str, at: Option<i64>) -> String {
        self.shared.repositories().commit(full_name, at)
    }

    /// Makes a commit with a tag, or moves the tag there, and returns the commit's id.
    pub fn add_tag(&self, full_name: &str, tag: &str) -> String {
        let mut repositories = self.shared.repositories();
        let oid = repositories.commit(full_name, None);
        repositories.tag(full_name, tag, &oid);
        oid
    }

    /// Has the git server of the host serve all branches and tags of `tree`, and the API its tags
    /// and every `go.mod` in them; what was there before is moved or removed.
    pub fn publish(&self, full_name: &str, tree: &WorkTree) -> Result<()> {
        git_server::publish(self, full_name, tree)
    }

    /// Where the git server has a bare repository.
    pub fn git_path(&self, full_name: &str) -> PathBuf {
        self.shared.git_root.path().join(format!("{full_name}.git"))
    }

    /// Sets or moves a tag to a commit.
    pub fn set_tag(&self, full_name: &str, tag: &str, oid: &str) {
        self.shared.repositories().tag(full_name, tag, oid);
    }

    pub fn delete_tag(&self, full_name: &str, tag: &str) {
        self.shared.repositories().untag(full_name, tag);
    }

    /// The tags of a repository and the commits they are at, by name.
    pub fn tags(&self, full_name: &str) -> Vec<(String, String)> {
        self.shared.repositories().tags(full_name)
    }

    /// Puts a file into every commit that has none of its own there.
    pub fn put_file(&self, full_name: &str, path: &str, bytes: impl Into<Bytes>) {
        let mut repositories = self.shared.repositories();
        repositories.put_file(full_name, None, path, bytes.into());
    }

    /// Puts a file into one commit.
    pub fn put_file_at(&self, full_name: &str, oid: &str, path: &str, bytes: impl Into<Bytes>) {
        let mut repositories = self.shared.repositories();
        repositories.put_file(full_name, Some(oid), path, bytes.into());
    }

    /// Takes a file out of every commit.
    pub fn delete_file(&self, full_name: &str, path: &str) {
        self.shared.repositories().delete_file(full_name, path);
    }
}

/// How it treats callers.
impl FakeGitHub {
    pub fn set_limits(&self, change: impl FnOnce(&mut Limits)) {
        change(&mut self.shared.books().limits);
    }

    /// Forgets what was used of every budget, as at the start of a new window.
    pub fn renew_budgets(&self) {
        self.shared.books().renew();
    }

    /// Says what is left for a token, or for callers without one, in the window that runs.
    pub fn remaining(&self, token: Option<usize>) -> u32 {
        self.shared.books().remaining(token)
    }

    /// Uses up so much of a budget, as another program with the same token would.
    pub fn use_up(&self, token: Option<usize>, calls: u32) {
        self.shared.books().use_up(token, calls);
    }

    /// Lets a token serve so many more calls; then it is answered with 401.
    pub fn expire_after(&self, token: usize, calls: u32) {
        self.shared.books().expire_after(token, Some(calls));
    }

    /// Makes a token valid again.
    pub fn renew_token(&self, token: usize) {
        self.shared.books().expire_after(token, None);
    }

    /// From now on calls whose path begins with `path` (`/repos/acme/one`) are treated so. The
    /// longest `path` that fits counts.
    pub fn behave(&self, path: &str, behaviour: Behaviour) {
        self.shared.scripts.set(path, [behaviour]);
    }

    /// The next calls below `path` are treated so, one step each; the last step stays.
    pub fn script(&self, path: &str, steps: impl IntoIterator<Item = Behaviour>) {
        self.shared.scripts.set(path, steps);
    }

    /// Holds back every answer below `path` until the gate is opened.
    pub fn hold(&self, path: &str) -> Gate {
        let gate = Gate::default();
        self.behave(path, Behaviour::Hold(gate.clone()));
        gate
    }
}

/// What it saw.
impl FakeGitHub {
    /// Every call so far, in order of arrival.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.record.all()
    }

    /// The calls whose path begins with `path`.
    pub fn requests_for(&self, path: &str) -> Vec<Seen> {
        let mut seen = self.requests();
        seen.retain(|seen| seen.path.starts_with(path));
        seen
    }

    pub fn count(&self) -> usize {
        self.shared.record.count()
    }

    pub fn in_flight(&self) -> usize {
        self.shared.record.in_flight()
    }

    /// The most calls there ever were at once.
    pub fn max_in_flight(&self) -> usize {
        let each = self.requests().into_iter().map(|seen| seen.in_flight);
        each.max().unwrap_or_default()
    }

    /// What went against its rules.
    pub fn counts(&self) -> Counts {
        self.shared.books().counts
    }

    /// Forgets the calls so far and what went against the rules; budgets stay.
    pub fn forget(&self) {
        self.shared.record.clear();
        self.shared.books().counts = Counts::default();
    }

    /// The window of the primary limits.
    pub fn window(&self) -> Duration {
        self.shared.books().limits.window
    }
}
