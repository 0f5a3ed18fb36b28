//! The modules of this node, as the go command asks for them: a GOPROXY.
//!
//! Versions that the index lists from repositories of other hosts are fetched when they are asked
//! for ([`Upstream`]), for readers who may see them.
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
mod located;
mod logged;
mod module_reader;
mod permits;
mod pseudo_version_cache;
mod recorder;
mod request;
mod upstream;
mod verify;
mod versions;
mod zip;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use grip_db::Db;
use grip_go::{ModulePath, Version, go_mod::Notices, implied_go_mod};
use grip_types::ClientNetwork;
use tokio::sync::Semaphore;

pub use body::Body;
pub use error::{Fault, ProxyError};
pub use grip_go::PathPattern;
pub use info::Info;
pub use recorder::Recorder;
pub use request::{Query, Request};
pub use upstream::{
    InvalidSumDb, SumCheck, SumCheckParts, SumDbKey, Upstream, UpstreamHost, UpstreamOptions,
    UpstreamParts, UpstreamStatus,
};
pub use zip::Zip;

use crate::{
    GoMod, Reader, SumDb,
    commit_files::{CommitFiles as _, StoredCommit},
    hosted::Hosted,
};
use located::Located;
use logged::LogCounts;
use permits::Permits;
use pseudo_version_cache::PseudoVersionCache;
use zip::ZipBounds;

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
    /// For modules of other hosts.
    upstream: Option<Upstream>,
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

/// Who asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caller {
    pub reader: Reader,
    /// Whose share is used up by what is fetched from other hosts; none for clients that are known.
    pub network: Option<ClientNetwork>,
    /// Nothing is fetched for it.
    pub only_cached: bool,
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
    /// Without `sumdb` nothing is logged, and versions move with their tags; without `upstream`
    /// modules of this node alone are served.
    pub fn new(
        db: Db,
        hosted: Hosted,
        sumdb: Option<SumDb>,
        upstream: Option<Upstream>,
        options: Options,
    ) -> Self {
        let inner = Inner {
            db,
            hosted,
            upstream,
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
    pub async fn answer(&self, request: &Request, caller: Caller) -> Result<Answer, ProxyError> {
        Ok(match request {
            Request::List(path) => Answer::List(self.list(path, caller).await?),
            Request::Latest(path) => Answer::Info(self.latest(path, caller).await?.to_json()),
            Request::Info(path, query) => {
                Answer::Info(self.info(path, query, caller).await?.to_json())
            }
            Request::GoMod(path, version) => {
                Answer::GoMod(self.go_mod(path, version, caller).await?)
            }
            Request::Zip(path, version) => Answer::Zip(self.zip(path, version, caller).await?),
        })
    }

    /// All versions of a module that have tags, in their order, one a line.
    pub async fn list(&self, path: &ModulePath, caller: Caller) -> Result<String, ProxyError> {
        let versions = self.versions(path, caller.reader).await?;
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
    pub async fn latest(&self, path: &ModulePath, caller: Caller) -> Result<Info, ProxyError> {
        let versions = self.versions(path, caller.reader).await?;
        if let Some(latest) = self.latest_of(path, &versions, caller).await? {
            return self.info(path, &Query::Version(latest), caller).await;
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
    pub async fn info(
        &self,
        path: &ModulePath,
        query: &Query,
        caller: Caller,
    ) -> Result<Info, ProxyError> {
        match query {
            Query::Version(version) => {
                let located = self.locate_for(path, version, caller).await?;
                self.info_of_located(located)
            }
            Query::Revision(revision) => {
                let at = self.locate_revision(path, revision).await?;
                Ok(self.info_of(at))
            }
        }
    }

    /// The `go.mod` of a version; made up where the module has none.
    pub async fn go_mod(
        &self,
        path: &ModulePath,
        version: &Version,
        caller: Caller,
    ) -> Result<Bytes, ProxyError> {
        let at = match self.locate_for(path, version, caller).await? {
            Located::Here(at) => at,
            Located::Fetched(fetched) => return Ok(fetched.module.go_mod.clone()),
        };
        if !at.module.has_go_mod {
            return Ok(implied_go_mod(path).into());
        }
        let what = format!("{path}@{version}");
        let reading = self.off_runtime(&self.inner.reads, move |hosted| {
            let files = StoredCommit {
                repositories: hosted.repositories(),
                identifier: &at.repo.identifier,
                commit: &at.commit,
            };
            let found = files.go_mod(&at.module.dir);
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

    /// What the author says of a module in the go.mod of its latest version. Nothing is fetched
    /// for it.
    pub async fn notices(&self, path: &ModulePath, reader: Reader) -> Result<Notices, ProxyError> {
        let caller = Caller {
            reader,
            only_cached: true,
            ..Caller::default()
        };
        let versions = self.versions(path, reader).await?;
        let Some(latest) = self.latest_of(path, &versions, caller).await? else {
            return Ok(Notices::default());
        };
        Ok(Notices::read(&self.go_mod(path, &latest, caller).await?))
    }

    /// The zip of a version, to be opened once it is clear that it shall be sent.
    pub async fn zip(
        &self,
        path: &ModulePath,
        version: &Version,
        caller: Caller,
    ) -> Result<Zip, ProxyError> {
        let at = match self.locate_for(path, version, caller).await? {
            Located::Here(at) => at,
            Located::Fetched(fetched) => return Ok(Zip::cached(self.clone(), fetched.module)),
        };
        if let Some(sumdb) = &self.inner.sumdb {
            self.log(sumdb, &at).await?;
        }
        Ok(Zip::new(self.clone(), at))
    }

    /// What was fetched from other hosts; none where nothing is.
    pub fn upstream_status(&self) -> Option<UpstreamStatus> {
        self.inner.upstream.as_ref().map(Upstream::status)
    }

    fn zip_bounds(&self) -> ZipBounds<'_> {
        ZipBounds {
            max_bytes: self.inner.options.max_zip_bytes,
            memory: &self.inner.memory,
        }
    }
}

/// What is asked of the index, for the test that prepares it on both engines.
#[cfg(test)]
pub(crate) static STATEMENTS: &[&grip_db::Statement] = indexed_versions::sql::ALL;
