//! The source of repositories served by this node.
//!
//! Invariants:
//! - Only what is served is indexed: a repository whose announcement still waits has no tags here.
//! - A repository speaks for the path of its own clone URL, and for others only if the operator said
//!   so ([`Claim`]); see `docs/decisions/0014-who-speaks-for-a-module.md`.
//! - Files and objects are read off the runtime, as tasks of the group that was handed in.

mod catch_up;
mod claims;
mod digest;
mod follow;
mod git_read;
mod module_paths;
mod names;

use std::sync::Arc;

use grip_git::Repositories;
use grip_go::ModulePath;
use grip_nostr::ServedRepositories;
use grip_tasks::TaskGroup;
use grip_types::{Oid, RepoAddr};

pub use catch_up::CaughtUp;
pub use claims::{Claim, InvalidClaim};
pub use follow::Follower;
pub use module_paths::ModulePaths;

use crate::{
    GoMod, Listing, Source, SourceError, SourceFuture, TagAt, Tags, TagsQuery, Trust,
    commit_files::{CommitFiles as _, StoredCommit},
};
use names::Names;

/// Repositories in a page of a listing.
const PAGE: usize = 1_000;

/// What a [`Hosted`] is made of.
pub struct Parts {
    pub repositories: Repositories,
    pub served: Arc<dyn ServedRepositories>,
    pub module_paths: ModulePaths,
    /// Paths other than clone URLs, and who may claim them.
    pub claims: Vec<Claim>,
    /// The name of this instance among those that share the database; empty if none does.
    pub node: String,
    pub group: TaskGroup,
}

/// The source of everything that is served here. Clones are the same source.
#[derive(Clone)]
pub struct Hosted {
    inner: Arc<Inner>,
}

struct Inner {
    repositories: Repositories,
    served: Arc<dyn ServedRepositories>,
    module_paths: ModulePaths,
    claims: Vec<Claim>,
    names: Names,
    group: TaskGroup,
}

impl Hosted {
    pub fn new(parts: Parts) -> Self {
        let inner = Inner {
            repositories: parts.repositories,
            served: parts.served,
            module_paths: parts.module_paths,
            claims: parts.claims,
            names: Names::new(&parts.node),
            group: parts.group,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The name of a repository in the index.
    pub fn name_of(&self, repo: &RepoAddr) -> String {
        self.inner.names.write(repo)
    }

    /// The repository on this node that the index calls so.
    pub fn repository(&self, name: &str) -> Option<RepoAddr> {
        self.inner.names.read(name)
    }

    /// Runs `work` where it may block.
    async fn off_runtime<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Repositories) -> Result<T, SourceError> + Send + 'static,
    ) -> Result<T, SourceError> {
        let repositories = self.inner.repositories.clone();
        let done = self
            .inner
            .group
            .spawn_blocking("index-hosted-read", move || work(&repositories));
        done.await
            .unwrap_or_else(|_| Err(SourceError::Transient("reading was cut short".to_owned())))
    }

    pub(crate) fn repositories(&self) -> &Repositories {
        &self.inner.repositories
    }

    pub(crate) fn module_paths(&self) -> &ModulePaths {
        &self.inner.module_paths
    }

    pub(crate) fn group(&self) -> &TaskGroup {
        &self.inner.group
    }

    pub(crate) fn is_served(&self, repo: &RepoAddr) -> bool {
        self.inner.served.is_served(repo)
    }

    /// The repository that the index calls so, if it is served here.
    pub(crate) fn served_repository(&self, name: &str) -> Option<RepoAddr> {
        let repo = self.repository(name)?;
        self.is_served(&repo).then_some(repo)
    }

    /// The repository as its name says, or why there is none.
    fn known(&self, name: &str) -> Result<RepoAddr, SourceError> {
        let unknown = || SourceError::Permanent(format!("{name:?} is no repository of this node"));
        self.repository(name).ok_or_else(unknown)
    }
}

impl Source for Hosted {
    fn name(&self) -> &str {
        self.inner.names.source()
    }

    fn is_local(&self) -> bool {
        true
    }

    fn policy(&self) -> String {
        let claims = self.inner.claims.iter().map(|claim| format!(" {claim}"));
        format!(
            "{}{}",
            self.inner.module_paths.root(),
            claims.collect::<String>()
        )
    }

    fn list(&self, cursor: Option<String>) -> SourceFuture<'_, Listing> {
        Box::pin(async move {
            let after = cursor.map(|name| self.known(&name)).transpose()?;
            let page = self.inner.served.page(after.as_ref(), PAGE);
            let repos: Vec<String> = page.iter().map(|repo| self.name_of(repo)).collect();
            let full = page.len() >= PAGE;
            let next = repos.last().filter(|_| full).cloned();
            Ok(Listing {
                repos: repos.into_iter().map(Into::into).collect(),
                next,
            })
        })
    }

    fn tags<'a>(&'a self, repo: &'a str, query: TagsQuery) -> SourceFuture<'a, Tags> {
        Box::pin(async move {
            let etag = query.etag;
            let Some(repo) = self.served_repository(repo) else {
                return Ok(Tags::Gone);
            };
            self.off_runtime(move |repositories| git_read::tags(repositories, &repo, etag))
                .await
        })
    }

    fn created<'a>(&'a self, repo: &'a str, tag: &'a TagAt) -> SourceFuture<'a, i64> {
        Box::pin(async move {
            let (repo, object) = (self.known(repo)?, tag.object);
            self.off_runtime(move |repositories| git_read::created(repositories, &repo, &object))
                .await
        })
    }

    fn go_mod<'a>(
        &'a self,
        repo: &'a str,
        commit: &'a Oid,
        dir: &'a str,
    ) -> SourceFuture<'a, GoMod> {
        Box::pin(async move {
            let (repo, commit, dir) = (self.known(repo)?, *commit, dir.to_owned());
            self.off_runtime(move |repositories| {
                let files = StoredCommit {
                    repositories,
                    identifier: &repo.identifier,
                    commit: &commit,
                };
                files.go_mod(&dir).map_err(|error| git_read::failed(&error))
            })
            .await
        })
    }

    fn location(&self, repo: &str) -> Option<ModulePath> {
        let repo = self.repository(repo)?;
        match self.inner.module_paths.location(&repo) {
            Ok(path) => Some(path),
            Err(reason) => {
                tracing::debug!(%repo, %reason, "no module can have the path of this repository");
                None
            }
        }
    }

    fn trusts(&self, repo: &str, path: &ModulePath) -> Trust {
        let Some(repo) = self.repository(repo) else {
            return Trust::Refused;
        };
        let location = self.inner.module_paths.location(&repo);
        if location.is_ok_and(|location| path.is_within(&location)) {
            return Trust::Proven;
        }
        let chosen = |claim: &Claim| claim.allows(&repo.npub(), path);
        if self.inner.claims.iter().any(chosen) {
            Trust::Chosen
        } else {
            Trust::Refused
        }
    }
}

#[cfg(test)]
mod tests;
