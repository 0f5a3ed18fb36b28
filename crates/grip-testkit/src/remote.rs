//! A git host that counts what it is asked and misbehaves when told to.
//!
//! Repositories are bare ones in a temporary directory, answered by `git http-backend`; what is
//! made up is the misbehaviour alone. Invariant: a request is in flight from its headers until
//! the last byte of its answer is handed to the socket, so a client that waits for the end of an
//! answer before it asks again is never counted twice.

pub(crate) mod backend;
mod behaviour;
mod bodies;
pub mod packs;
mod record;
mod service;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio::task::JoinSet;

use self::behaviour::Scripts;
pub use self::{
    backend::Speaks,
    behaviour::{Behaviour, Gate, Status},
    record::Seen,
};
use crate::{WorkTree, git, listener, record::Record};

/// A running host; it ends when dropped.
#[derive(Debug)]
pub struct RemoteHost {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
    _port: Option<std::net::TcpListener>,
}

#[derive(Debug)]
struct Shared {
    root: TempDir,
    speaks: Speaks,
    record: Record<Seen>,
    scripts: Scripts,
}

impl RemoteHost {
    /// A host of today (protocol v2) on a loopback address such as `127.0.0.2`.
    pub async fn start(address: &str) -> Result<Self> {
        Self::speaking(address, Speaks::V2).await
    }

    /// A host on a loopback address that understands what `speaks` says.
    pub async fn speaking(address: &str, speaks: Speaks) -> Result<Self> {
        let (listener, port) = listener::bind(address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            root: TempDir::new()?,
            speaks,
            record: Record::default(),
            scripts: Scripts::default(),
        });
        Ok(Self {
            address,
            _serving: listener::serve(listener, Arc::clone(&shared), service::respond),
            shared,
            _port: port,
        })
    }

    /// `127.0.0.2:port`
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// The address without the port, as limits are counted by.
    pub fn domain(&self) -> String {
        self.address.ip().to_string()
    }

    pub fn clone_url(&self, repository: &str) -> String {
        format!("http://{}/{repository}", self.authority())
    }

    /// Where the bare `repository` is on disk.
    pub fn path(&self, repository: &str) -> PathBuf {
        self.shared.root.path().join(repository)
    }

    /// Makes an empty bare repository, which takes pushes over HTTP too, and returns its URL.
    pub fn create(&self, repository: &str) -> Result<String> {
        let path = self.path(repository);
        std::fs::create_dir_all(&path)?;
        for args in [
            &["init", "-q", "--bare", "-b", "main"][..],
            &["config", "http.receivepack", "true"],
        ] {
            let done = git::command(&path, args.iter().copied()).output()?;
            ensure!(done.status.success(), "git {args:?} failed: {done:?}");
        }
        Ok(self.clone_url(repository))
    }

    /// Puts `refspecs` of a work tree into `repository` past the network, uncounted.
    pub fn take(&self, tree: &WorkTree, repository: &str, refspecs: &[&str]) -> Result<()> {
        let path = self.path(repository);
        let mut args = vec!["push", "-q", path.to_str().context("paths are UTF-8")?];
        args.extend(refspecs);
        tree.git(args).map(drop)
    }

    /// [`RemoteHost::create`] with all branches and tags of `tree`.
    pub fn host(&self, tree: &WorkTree, repository: &str) -> Result<String> {
        let url = self.create(repository)?;
        let all = ["refs/heads/*:refs/heads/*", "refs/tags/*:refs/tags/*"];
        self.take(tree, repository, &all)?;
        Ok(url)
    }

    /// Serves `repository` under another name too; its requests are counted apart.
    pub fn alias(&self, repository: &str, name: &str) -> Result<String> {
        std::os::unix::fs::symlink(self.path(repository), self.path(name))?;
        Ok(self.clone_url(name))
    }

    /// The object that `name` points to in `repository`.
    pub fn oid(&self, repository: &str, name: &str) -> Result<String> {
        let asked = git::command(&self.path(repository), ["rev-parse", "--verify", name]);
        let output = { asked }.output()?;
        ensure!(output.status.success(), "{repository} has no {name}");
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// From now on every request is treated so, unless its repository has a script of its own.
    pub fn behave(&self, behaviour: Behaviour) {
        self.shared.scripts.set(None, [behaviour]);
    }

    /// From now on requests for `repository` are treated so.
    pub fn behave_at(&self, repository: &str, behaviour: Behaviour) {
        self.shared.scripts.set(Some(repository), [behaviour]);
    }

    /// The next requests for `repository` are treated so, one step each; the last step stays.
    pub fn script(&self, repository: &str, steps: impl IntoIterator<Item = Behaviour>) {
        self.shared.scripts.set(Some(repository), steps);
    }

    /// Holds back every answer about `repository` until the gate is opened.
    pub fn hold(&self, repository: &str) -> Gate {
        let gate = Gate::default();
        self.behave_at(repository, Behaviour::Hold(gate.clone()));
        gate
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.record.all()
    }

    /// The requests for `repository`.
    pub fn requests_for(&self, repository: &str) -> Vec<Seen> {
        let mut seen = self.requests();
        seen.retain(|seen| seen.repository == repository);
        seen
    }

    pub fn count(&self) -> usize {
        self.shared.record.count()
    }

    /// The requests for data: without those that only ask which refs there are, as a look at a
    /// replica does.
    pub fn fetches(&self) -> Vec<Seen> {
        let mut seen = self.requests();
        seen.retain(|seen| seen.command.as_deref() != Some("ls-refs"));
        seen
    }

    /// Requests whose answer has not ended.
    pub fn in_flight(&self) -> usize {
        self.shared.record.in_flight()
    }

    /// The most requests there ever were at once.
    pub fn max_in_flight(&self) -> usize {
        let each = self.requests().into_iter().map(|seen| seen.in_flight);
        each.max().unwrap_or_default()
    }

    /// The most requests that arrived within any span of this length.
    pub fn max_in_window(&self, window: Duration) -> usize {
        let times: Vec<_> = self.requests().iter().map(|seen| seen.at).collect();
        record::most_within(&times, window)
    }

    /// Forgets what was asked so far.
    pub fn forget(&self) {
        self.shared.record.clear();
    }
}
