//! Versions as the checksum database has logged them.

use std::sync::atomic::{AtomicU64, Ordering};

use grip_go::{ModulePath, Version};

use super::{
    Caller, Proxy, ProxyError, indexed_versions::IndexedVersion, located::Located,
    module_reader::ModuleCommit, permits::Permits, zip,
};
use crate::{Record, SumDb, Sums, sumdb::NewRecord};

/// Requests for versions whose tags have moved.
#[derive(Default)]
pub(super) struct LogCounts {
    pub(super) served_as_logged: AtomicU64,
    pub(super) refused: AtomicU64,
}

impl Proxy {
    pub fn sumdb(&self) -> Option<&SumDb> {
        self.inner.sumdb.as_ref()
    }

    /// Requests for versions whose tags have moved that were answered as logged, and that were
    /// refused because what was logged is not here any more.
    pub fn moved_requests(&self) -> [u64; 2] {
        let counts = &self.inner.log_counts;
        [&counts.served_as_logged, &counts.refused].map(|count| count.load(Ordering::Relaxed))
    }

    /// The record of a version, which is logged if it is not yet. Only what is here is looked at.
    pub async fn record(
        &self,
        path: &ModulePath,
        version: &Version,
        caller: Caller,
    ) -> Result<Record, ProxyError> {
        let Some(sumdb) = self.sumdb() else {
            return Err(ProxyError::not_found(path, "this node logs no checksums"));
        };
        if let Some(record) = sumdb.find(path, version).await? {
            return Ok(record);
        }
        match self.locate_for(path, version, caller).await? {
            Located::Here(at) => self.log(sumdb, &at).await,
            Located::Fetched(_) => {
                let record = sumdb.find(path, version).await?;
                let what = format!("{path}@{version}");
                // Also the reader of a restricted repository is told so: the log is public.
                record.ok_or_else(|| ProxyError::not_found(what, "it is not logged"))
            }
        }
    }

    /// Logs a version, unless it is.
    ///
    /// The work goes on when nobody waits for it any more: a module that takes longer than a request
    /// may is there for the next one.
    pub(super) async fn log(&self, sumdb: &SumDb, at: &ModuleCommit) -> Result<Record, ProxyError> {
        let (path, version) = (&at.module.path, &at.module.version);
        if let Some(record) = sumdb.find(path, version).await? {
            return Ok(record);
        }
        self.check_room_for(sumdb, at).await?;
        let (proxy, sumdb, at) = (self.clone(), sumdb.clone(), at.clone());
        let logging = async move {
            let sums = proxy.sums(&proxy.inner.zips, &at).await?;
            let logged = sumdb.append(vec![proxy.new_record(&at, sums)]).await?;
            logged.into_iter().next().ok_or_else(ProxyError::cut_short)
        };
        let logging = self.inner.hosted.group().spawn("go-proxy-log", logging);
        logging.await.map_err(|_| ProxyError::cut_short())?
    }

    pub(super) async fn check_room_for(
        &self,
        sumdb: &SumDb,
        at: &ModuleCommit,
    ) -> Result<(), ProxyError> {
        let (repo, module) = (self.inner.hosted.name_of(&at.repo), &at.module);
        self.check_room(sumdb, &repo, module.path.as_str(), &module.version)
            .await
    }

    /// Refuses a version of a repository that has as many records as one may have.
    pub(super) async fn check_room(
        &self,
        sumdb: &SumDb,
        repo: &str,
        path: &str,
        version: &Version,
    ) -> Result<(), ProxyError> {
        if sumdb.has_room(repo, version).await? {
            return Ok(());
        }
        let what = format!("{path}@{version}");
        let reason = "its repository has more versions than this node logs checksums of";
        Err(ProxyError::not_found(what, reason))
    }

    pub(super) async fn sums(
        &self,
        permits: &Permits,
        at: &ModuleCommit,
    ) -> Result<Sums, ProxyError> {
        let (proxy, at) = (self.clone(), at.clone());
        self.off_runtime(permits, move |_| zip::sums(&proxy, &at))
            .await
    }

    pub(super) fn new_record(&self, at: &ModuleCommit, sums: Sums) -> NewRecord {
        let tag = at.reference.as_ref().and_then(|name| {
            let name = name.as_str().strip_prefix("refs/tags/")?;
            Some(name.to_owned())
        });
        NewRecord {
            path: at.module.path.to_string(),
            version: at.module.version.to_string(),
            sums,
            repo: self.inner.hosted.name_of(&at.repo),
            tag: tag.filter(|_| !at.module.version.is_pseudo()),
            commit: at.commit.to_hex(),
        }
    }

    /// The module as it was logged, wherever its tag leads now.
    pub(super) async fn locate_logged(
        &self,
        path: &ModulePath,
        version: &Version,
        claims: &[IndexedVersion],
        record: Record,
    ) -> Result<ModuleCommit, ProxyError> {
        let what = format!("{path}@{version}");
        let has_moved = claims
            .iter()
            .all(|claim| claim.commit.to_hex() != record.commit);
        let located = self.read_logged(path, version, claims, &record).await;
        let counts = &self.inner.log_counts;
        match located {
            Ok(at) => {
                if has_moved {
                    counts.served_as_logged.fetch_add(1, Ordering::Relaxed);
                }
                Ok(at)
            }
            Err(ProxyError::NotFound { reason, .. }) if has_moved => {
                counts.refused.fetch_add(1, Ordering::Relaxed);
                let logged = &record.commit;
                // A repository that is elsewhere may be one that not everybody may know of.
                let here = claims
                    .iter()
                    .find(|claim| self.root_of(path, claim).is_some());
                let now = here.map_or_else(String::new, |claim| format!(", to {}", claim.commit));
                // The move itself was a warning; who asks again and again fills no log.
                tracing::debug!(%path, %version, logged, now, "refused a version whose tag has moved");
                let reason = format!(
                    "its tag has moved from commit {logged}, whose checksum is logged and which \
                     cannot be served any more ({reason}){now}; ask its author for a new version"
                );
                Err(ProxyError::Moved { what, reason })
            }
            Err(error) => Err(error),
        }
    }

    async fn read_logged(
        &self,
        path: &ModulePath,
        version: &Version,
        claims: &[IndexedVersion],
        record: &Record,
    ) -> Result<ModuleCommit, ProxyError> {
        let what = format!("{path}@{version}");
        let commit = record.commit.parse();
        let commit = commit.map_err(|_| ProxyError::not_found(&what, "the log names no commit"))?;
        let mut last = None;
        // Another repository may have the same commit, or what was logged may have moved there.
        for claim in claims {
            let logged = IndexedVersion {
                version: version.clone(),
                repo: claim.repo.clone(),
                tag: claim.tag.clone(),
                commit,
                audience: claim.audience,
            };
            let Some(root) = self.root_of(path, &logged) else {
                continue;
            };
            let reading = self.read_module(&self.inner.reads, root, path, move |reader| {
                reader.logged(&logged)
            });
            match reading.await {
                Ok(at) => return Ok(at),
                Err(error) => last = Some(error),
            }
        }
        let nowhere = || ProxyError::not_found(what, "no repository here has it");
        Err(last.unwrap_or_else(nowhere))
    }
}
