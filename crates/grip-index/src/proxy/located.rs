//! Versions wherever they are: in a repository of this node, or on another host.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use grip_go::{ModulePath, Version};
use tokio::time::{Instant, timeout};

use super::{
    Caller, Info, Proxy, ProxyError, indexed_versions,
    indexed_versions::IndexedVersion,
    module_reader::ModuleCommit,
    upstream::{FetchFor, FetchedModule, Upstream, User, Wanted},
};
use crate::{Audience, Record, SumDb, Sums, sumdb::NewRecord};

/// Repositories of other hosts that are tried for one version.
const MAX_TRIED: usize = 3;
/// How long a request may have waited for one of them to go on with the next after it was put off.
const MAX_PUT_OFF: Duration = Duration::from_secs(5);
/// How long a comparison waits for a host.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// A version that can be served.
pub(super) enum Located {
    Here(ModuleCommit),
    Fetched(Fetched),
}

/// A version of another host.
pub(super) struct Fetched {
    pub(super) module: Arc<FetchedModule>,
    /// Its tag leads to another commit by now.
    pub(super) has_moved: bool,
}

impl Located {
    pub(super) fn has_go_mod(&self) -> bool {
        match self {
            Self::Here(at) => at.module.has_go_mod,
            Self::Fetched(fetched) => fetched.module.facts.has_go_mod,
        }
    }
}

impl Proxy {
    /// The version, for who asks.
    pub(super) async fn locate_for(
        &self,
        path: &ModulePath,
        version: &Version,
        caller: Caller,
    ) -> Result<Located, ProxyError> {
        if version.is_pseudo() {
            return self.locate(path, version).await.map(Located::Here);
        }
        let mut claims = indexed_versions::version(&self.inner.db, path, version).await?;
        // What this reader may not see is not there, whatever was logged of it.
        claims.retain(|claim| caller.reader.sees(claim.audience));
        if let Some(upstream) = &self.inner.upstream
            && !claims
                .iter()
                .any(|claim| self.root_of(path, claim).is_some())
        {
            let elsewhere = claims.iter();
            let elsewhere = elsewhere.filter(|claim| upstream.covers(&claim.repo));
            let mut elsewhere: Vec<_> = elsewhere.cloned().collect();
            if !elsewhere.is_empty() {
                // What anybody may see needs no credential.
                elsewhere.sort_by_key(|claim| claim.audience);
                elsewhere.truncate(MAX_TRIED);
                let fetched = self.fetched(upstream, path, version, elsewhere, caller);
                return fetched.await.map(Located::Fetched);
            }
        }
        let located = self.locate_among(path, version, claims).await;
        located.map(Located::Here)
    }

    /// A version of another host, as it was first served.
    async fn fetched(
        &self,
        upstream: &Upstream,
        path: &ModulePath,
        version: &Version,
        claims: Vec<IndexedVersion>,
        caller: Caller,
    ) -> Result<Fetched, ProxyError> {
        let what = format!("{path}@{version}");
        let is_public = claims
            .iter()
            .any(|claim| claim.audience == Audience::Anybody);
        let logged = self.first_served(path, version, is_public).await?;
        let is_logged_one =
            |claim: &IndexedVersion, record: &Record| claim.commit.to_hex() == record.commit;
        let has_moved = logged.as_ref().is_some_and(|record| {
            let mut claims = claims.iter();
            !claims.any(|claim| is_logged_one(claim, record))
        });
        let user = match caller.network {
            _ if caller.only_cached => User::Nobody,
            Some(network) => User::Network(network),
            None => User::Known,
        };
        let by = FetchFor {
            user,
            may_fetch: !caller.only_cached,
        };
        let begun = Instant::now();
        let mut last = None;
        for claim in claims {
            let commit = match &logged {
                Some(record) => record.commit.parse(),
                None => Ok(claim.commit),
            };
            let commit = commit.map_err(|_| ProxyError::not_found(&what, "no commit is logged"))?;
            let wanted = Wanted {
                path: path.clone(),
                version: version.clone(),
                repo: claim.repo.clone(),
                tag: claim.tag.clone(),
                commit,
                is_public: claim.audience == Audience::Anybody,
            };
            match upstream.get(wanted, by).await {
                Ok(module) => {
                    self.check_logged(&module, logged.as_ref(), claim.audience)
                        .await?;
                    if has_moved {
                        self.count_moved(true);
                    }
                    return Ok(Fetched { module, has_moved });
                }
                // That one cannot be had now counts for more than that another does not have it.
                Err(error @ ProxyError::NotFound { .. }) => {
                    last.get_or_insert(error);
                }
                Err(error @ ProxyError::Elsewhere { .. }) if begun.elapsed() < MAX_PUT_OFF => {
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match (last, logged) {
            (Some(ProxyError::NotFound { reason, .. }), Some(record)) if has_moved => {
                self.count_moved(false);
                let logged = record.commit;
                let reason = format!(
                    "its tag has moved from commit {logged}, whose checksum was kept and which \
                     cannot be fetched any more ({reason}); ask its author for a new version"
                );
                Err(ProxyError::Moved { what, reason })
            }
            (Some(error), _) => Err(error),
            (None, _) => Err(ProxyError::not_found(what, "no repository has it")),
        }
    }

    /// What was kept of a version when it was first served.
    ///
    /// Once everybody may see the version, only the log counts: what it was while its repository was
    /// restricted is not for everybody, and its tag may have left it for that reason.
    async fn first_served(
        &self,
        path: &ModulePath,
        version: &Version,
        is_public: bool,
    ) -> Result<Option<Record>, ProxyError> {
        let Some(sumdb) = self.sumdb() else {
            return Ok(None);
        };
        if let Some(record) = sumdb.find(path, version).await? {
            return Ok(Some(record));
        }
        if is_public {
            return Ok(None);
        }
        Ok(sumdb.find_restricted(path, version).await?)
    }

    /// Refuses a module that is not what was first served, and logs one that was not served before:
    /// where everybody can read it if everybody may know of it, else beside the log.
    async fn check_logged(
        &self,
        module: &FetchedModule,
        logged: Option<&Record>,
        audience: Audience,
    ) -> Result<(), ProxyError> {
        let Some(sumdb) = self.sumdb() else {
            return Ok(());
        };
        let record = match logged {
            Some(record) => record.clone(),
            None => {
                let is_public = audience == Audience::Anybody;
                self.log_fetched(sumdb, module, is_public).await?
            }
        };
        if record.has(&module.sums()) {
            return Ok(());
        }
        let facts = &module.facts;
        let what = format!("{}@{}", facts.path, facts.version);
        tracing::warn!(%what, repo = facts.repo, commit = facts.commit, "a fetched module is not what was logged");
        let reason = "its files are not those that it had when it was first served".to_owned();
        Err(ProxyError::Untrusted { what, reason })
    }

    async fn log_fetched(
        &self,
        sumdb: &SumDb,
        module: &FetchedModule,
        is_public: bool,
    ) -> Result<Record, ProxyError> {
        let facts = &module.facts;
        let new = NewRecord {
            path: facts.path.clone(),
            version: facts.version.clone(),
            sums: module.sums(),
            repo: facts.repo.clone(),
            tag: Some(facts.tag.clone()),
            commit: facts.commit.clone(),
        };
        if !is_public {
            return Ok(sumdb.keep_restricted(new).await?);
        }
        let version = Version::parse(&facts.version);
        let version = version.map_err(|invalid| ProxyError::not_found(&facts.path, invalid))?;
        self.check_room(sumdb, &facts.repo, &facts.path, &version)
            .await?;
        let logged = sumdb.append(vec![new]).await?;
        logged.into_iter().next().ok_or_else(ProxyError::cut_short)
    }

    /// Whether a repository is on a host that modules are fetched from.
    pub(super) fn fetches(&self, repo: &str) -> bool {
        let upstream = self.inner.upstream.as_ref();
        upstream.is_some_and(|upstream| upstream.covers(repo))
    }

    /// The sums of a version where its tag leads to now, on another host.
    pub(super) async fn sums_elsewhere(
        &self,
        path: &ModulePath,
        version: &Version,
        claim: IndexedVersion,
    ) -> Result<Sums, ProxyError> {
        let what = format!("{path}@{version}");
        let Some(upstream) = &self.inner.upstream else {
            return Err(ProxyError::not_found(what, "nothing is fetched"));
        };
        let wanted = Wanted {
            path: path.clone(),
            version: version.clone(),
            repo: claim.repo,
            tag: claim.tag,
            commit: claim.commit,
            is_public: claim.audience == Audience::Anybody,
        };
        let by = FetchFor {
            user: User::Nobody,
            may_fetch: true,
        };
        // The fetch goes on, and the next pass finds it.
        let fetched = timeout(MAX_WAIT, upstream.get(wanted, by)).await;
        Ok(fetched.map_err(|_| ProxyError::cut_short())??.sums())
    }

    fn count_moved(&self, is_served: bool) {
        let counts = &self.inner.log_counts;
        let count = if is_served {
            &counts.served_as_logged
        } else {
            &counts.refused
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn info_of_located(&self, located: Located) -> Result<Info, ProxyError> {
        match located {
            Located::Here(at) => Ok(self.info_of(at)),
            Located::Fetched(fetched) => {
                let upstream = self.inner.upstream.as_ref();
                let upstream = upstream.ok_or_else(ProxyError::cut_short)?;
                let facts = &fetched.module.facts;
                let clone_url = upstream.clone_url(&facts.repo);
                let info = Info::of_fetched(facts, clone_url, fetched.has_moved);
                info.ok_or_else(ProxyError::cut_short)
            }
        }
    }
}
