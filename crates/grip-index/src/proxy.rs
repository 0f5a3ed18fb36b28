//! The modules of this node, as the go command asks for them: a GOPROXY.
//!
//! Versions come from the index and are looked up in the repository once more before they are
//! served. Branches and commits have pseudo-versions, made and checked as go does it.
//!
//! **Tags that move.** With a checksum database a version is what was logged for it, as long as its
//! tag is there at all and the logged commit can be read; then it is refused, with the reason. Without
//! one it is what its tag leads to now, and between the move and the index's next look it is not
//! served. `.info` names the commit (`Origin.Hash`), and `/index/changes` lists the move.
//!
//! Invariants:
//! - Nothing is served that the index does not list, but for commits of a repository that a module
//!   path names, or that has indexed versions of that module.
//! - A commit is only served if a branch or tag of the same owner leads to it, or did so when a
//!   version was logged that still has its tag.
//! - No zip is sent of a version that is not logged, where there is a checksum database.
//! - Work is bounded: so many reads, walks and zips at once, so many more wait, the rest is
//!   [`ProxyError::Busy`]. What one of them may take has a bound of its own.

mod body;
mod error;
mod history;
mod indexed_versions;
mod info;
mod locate;
mod logged;
mod module_reader;
mod permits;
mod pseudo_version_cache;
mod recorder;
mod request;
mod verify;
mod versions;
mod zip;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use grip_db::Db;
use grip_go::{ModulePath, Version, go_mod::Notices, implied_go_mod};
use tokio::sync::Semaphore;

pub use body::Body;
pub use error::{Fault, ProxyError};
pub use info::Info;
pub use recorder::Recorder;
pub use request::{Query, Request};
pub use zip::Zip;

use crate::{
    GoMod, SumDb,
    hosted::{Hosted, go_mod_at},
};
use logged::LogCounts;
use permits::Permits;
use pseudo_version_cache::PseudoVersionCache;

/// How much the proxy does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Most bytes of all files of a module together; default 500 MiB, which is also go's limit.
    pub max_zip_bytes: u64,
    /// Zips made at once; default 4. Sixteen times as many wait.
    pub zips_at_once: usize,
    /// How long a client may take none of a zip; default 60 s.
    pub stall: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_zip_bytes: grip_go::zip::MAX_BYTES,
            zips_at_once: 4,
            stall: Duration::from_secs(60),
        }
    }
}

/// Answers the go command. Clones are the same proxy.
#[derive(Clone)]
pub struct Proxy {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    hosted: Hosted,
    options: Options,
    /// For what is read in no time.
    reads: Permits,
    /// For what may go through a whole history.
    walks: Permits,
    zips: Permits,
    /// For the recorder, which is in nobody's way.
    recording: Permits,
    sumdb: Option<SumDb>,
    log_counts: LogCounts,
    pseudo_versions: PseudoVersionCache,
    /// MiB of file contents in memory, over all zips.
    memory: Arc<Semaphore>,
}

/// What the go command is sent.
pub enum Answer {
    /// One version a line.
    List(String),
    /// JSON.
    Info(Bytes),
    GoMod(Bytes),
    Zip(Zip),
}

impl Proxy {
    /// Without `sumdb` nothing is logged, and versions move with their tags.
    pub fn new(db: Db, hosted: Hosted, sumdb: Option<SumDb>, options: Options) -> Self {
        let inner = Inner {
            db,
            hosted,
            reads: Permits::new(16, 512),
            walks: Permits::new(2, 64),
            zips: Permits::new(options.zips_at_once, 16 * options.zips_at_once),
            recording: Permits::new(1, 1),
            sumdb,
            log_counts: LogCounts::default(),
            pseudo_versions: PseudoVersionCache::default(),
            memory: Arc::new(Semaphore::new(zip::MEMORY_MIB)),
            options,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// Answers any request. Cancel safe.
    pub async fn answer(&self, request: &Request) -> Result<Answer, ProxyError> {
        Ok(match request {
            Request::List(path) => Answer::List(self.list(path).await?),
            Request::Latest(path) => Answer::Info(self.latest(path).await?.to_json()),
            Request::Info(path, query) => Answer::Info(self.info(path, query).await?.to_json()),
            Request::GoMod(path, version) => Answer::GoMod(self.go_mod(path, version).await?),
            Request::Zip(path, version) => Answer::Zip(self.zip(path, version).await?),
        })
    }

    /// All versions of a module that have tags, in their order, one a line.
    pub async fn list(&self, path: &ModulePath) -> Result<String, ProxyError> {
        let versions = self.versions(path).await?;
        if versions.is_empty() {
            // A module without a tag has an empty list, and what is no module has none.
            let root = self.root(path).await?;
            self.read_module(&self.inner.reads, root, path, |reader| reader.is_at_head())
                .await?;
        }
        let lines = versions.iter().map(|version| format!("{version}\n"));
        Ok(lines.collect())
    }

    /// The highest release, else the highest version of any kind, else the default branch.
    pub async fn latest(&self, path: &ModulePath) -> Result<Info, ProxyError> {
        let versions = self.versions(path).await?;
        if let Some(latest) = self.latest_of(path, &versions).await? {
            return self.info(path, &Query::Version(latest)).await;
        }
        let root = self.root(path).await?;
        let at = self
            .read_module(&self.inner.walks, root, path, |reader| {
                reader.untagged(reader.head()?)
            })
            .await?;
        Ok(self.info_of(at))
    }

    /// What a version, branch, tag or commit stands for.
    pub async fn info(&self, path: &ModulePath, query: &Query) -> Result<Info, ProxyError> {
        let at = match query {
            Query::Version(version) => self.locate(path, version).await?,
            Query::Revision(revision) => self.locate_revision(path, revision).await?,
        };
        Ok(self.info_of(at))
    }

    /// The `go.mod` of a version; made up where the module has none.
    pub async fn go_mod(&self, path: &ModulePath, version: &Version) -> Result<Bytes, ProxyError> {
        let at = self.locate(path, version).await?;
        if !at.module.has_go_mod {
            return Ok(implied_go_mod(path).into());
        }
        let what = format!("{path}@{version}");
        let reading = self.off_runtime(&self.inner.reads, move |hosted| {
            let identifier = &at.repo.identifier;
            let dir = &at.module.dir;
            let found = go_mod_at(hosted.repositories(), identifier, &at.commit, dir);
            found.map_err(|error| ProxyError::of_repository(&what, error))
        });
        match reading.await? {
            GoMod::Text(text) => Ok(text),
            GoMod::TooLarge | GoMod::Absent => {
                let what = format!("{path}@{version}");
                Err(ProxyError::not_found(what, "its go.mod cannot be read"))
            }
        }
    }

    /// What the author says of a module in the go.mod of its latest version.
    pub async fn notices(&self, path: &ModulePath) -> Result<Notices, ProxyError> {
        let versions = self.versions(path).await?;
        let Some(latest) = self.latest_of(path, &versions).await? else {
            return Ok(Notices::default());
        };
        Ok(Notices::read(&self.go_mod(path, &latest).await?))
    }

    /// The zip of a version, to be opened once it is clear that it shall be sent.
    pub async fn zip(&self, path: &ModulePath, version: &Version) -> Result<Zip, ProxyError> {
        let at = self.locate(path, version).await?;
        if let Some(sumdb) = &self.inner.sumdb {
            self.log(sumdb, &at).await?;
        }
        Ok(Zip::new(self.clone(), at))
    }
}

/// What is asked of the index, for the test that prepares it on both engines.
#[cfg(test)]
pub(crate) static STATEMENTS: &[&grip_db::Statement] = indexed_versions::sql::ALL;
