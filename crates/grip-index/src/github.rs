//! Repositories on a GitHub host, as a source of the index.
//!
//! Invariants:
//! - Every call goes through the host's one gateway, and none waits: a limit becomes an error that
//!   says until when.
//! - GraphQL is asked for lists of repositories, for all of a repository that is new, and for many
//!   files or names at once; REST for what is conditional, and wherever GraphQL does not answer.
//! - Private repositories stay out unless the operator wants them in, and so do their names.

mod errors;
mod graphql;
mod ref_objects;
mod tags;

use grip_github::{GitHub, GitHubError, Login, Owner, RepoName, RepositoryFacts};
use grip_go::{ModulePath, go_mod};
use grip_types::Oid;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::{
    errors::{about_one, of_list, step},
    ref_objects::RefObjects,
};
use crate::{
    Audience, GoMod, Listed, Listing, Source, SourceError, SourceFuture, TagAt, Tags, TagsQuery,
    Trust,
};

/// The repositories of an organisation, a user or a whole host.
pub struct GitHubSource {
    github: GitHub,
    name: String,
    host: String,
    owner: Owner,
    options: GitHubOptions,
    ref_objects: RefObjects,
    /// Until when GraphQL is not asked, because the host did not understand it.
    rest_until: Mutex<Option<Instant>>,
}

/// What may be chosen about a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubOptions {
    /// Which repositories that not everybody may see are indexed, for readers of restricted ones.
    /// Default: none.
    pub private: PrivateRepos,
    /// Which repositories count as Go. Default: all.
    pub filter: GoFilter,
    /// Whether GraphQL is asked where there is a token; REST otherwise. Default: yes.
    pub graphql: bool,
}

/// Which repositories that not everybody may see are indexed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrivateRepos {
    #[default]
    None,
    /// Those that all members of the enterprise may see.
    Internal,
    All,
}

/// Which repositories count as Go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GoFilter {
    #[default]
    All,
    /// Those that the host says are mostly in Go.
    Language,
    /// Those whose default branch has a `go.mod` at the root. REST does not tell in a list; there
    /// the language decides.
    GoMod,
}

impl Default for GitHubOptions {
    fn default() -> Self {
        Self {
            private: PrivateRepos::default(),
            filter: GoFilter::default(),
            graphql: true,
        }
    }
}

impl GitHubSource {
    /// `host` is the name that module paths begin with (`github.com`), not that of the API.
    pub fn new(github: GitHub, host: &str, owner: Owner, options: GitHubOptions) -> Self {
        let host = host.to_ascii_lowercase();
        let name = match &owner {
            Owner::Org(login) => format!("{host}/orgs/{login}"),
            Owner::User(login) => format!("{host}/users/{login}"),
            Owner::Everything => host.clone(),
        };
        Self {
            github,
            name,
            host,
            owner,
            options,
            ref_objects: RefObjects::default(),
            rest_until: Mutex::default(),
        }
    }

    fn repo_name(&self, repo: &str) -> Result<RepoName, SourceError> {
        let rest = repo.strip_prefix(&self.host);
        let rest = rest.and_then(|rest| rest.strip_prefix('/'));
        let name = rest.and_then(|rest| RepoName::parse(rest).ok());
        name.ok_or_else(|| SourceError::Permanent(format!("{repo:?} is no repository here")))
    }

    /// Who may see a repository; none where it stays out.
    fn audience(&self, repo: &RepositoryFacts) -> Option<Audience> {
        let is_go = || repo.language.as_deref() == Some("Go");
        let is_chosen = match self.options.filter {
            GoFilter::All => true,
            GoFilter::Language => is_go(),
            GoFilter::GoMod => repo.has_go_mod.unwrap_or_else(is_go),
        };
        let least = match (repo.private || repo.internal, repo.internal) {
            (false, _) => PrivateRepos::None,
            (true, true) => PrivateRepos::Internal,
            (true, false) => PrivateRepos::All,
        };
        let is_admitted = is_chosen && self.options.private >= least;
        let audience = match least {
            PrivateRepos::None => Audience::Anybody,
            PrivateRepos::Internal | PrivateRepos::All => Audience::Readers,
        };
        is_admitted.then_some(audience)
    }

    fn listed(&self, repos: &[RepositoryFacts]) -> Vec<Listed> {
        let listed = repos.iter().filter_map(|repo| {
            Some(Listed {
                name: format!("{}/{}", self.host, repo.full_name),
                audience: self.audience(repo)?,
            })
        });
        listed.collect()
    }

    async fn rest_page(&self, cursor: Option<String>) -> Result<Listing, SourceError> {
        let bad = |_| SourceError::Permanent("the place in the list is not one".to_owned());
        let cursor = cursor.map(|text| text.parse()).transpose().map_err(bad)?;
        let page = self.github.repositories(&self.owner, cursor).await;
        let page = page.map_err(|error| of_list(&error))?;
        let facts: Vec<_> = page.items.into_iter().map(facts).collect();
        Ok(Listing {
            repos: self.listed(&facts),
            next: page.next.map(|next| next.to_string()),
        })
    }

    /// What is said of a repository; none where there is none by that name.
    async fn facts(&self, repo: &str) -> Result<Option<RepositoryFacts>, SourceError> {
        let name = self.repo_name(repo)?;
        let found = match self.graphql_facts(&name).await? {
            Some(found) => Ok(found),
            None => self.github.repository(&name).await.map(facts),
        };
        match found {
            // Under another name, even if only its case is other, it is another.
            Ok(found) => Ok(Some(found).filter(|found| found.full_name == name)),
            Err(
                GitHubError::NotFound { .. }
                | GitHubError::Gone
                | GitHubError::Client { status: 451, .. },
            ) => Ok(None),
            Err(error) => Err(step(&error)),
        }
    }
}

/// What REST says of a repository.
fn facts(repo: grip_github::Repository) -> RepositoryFacts {
    RepositoryFacts {
        full_name: repo.full_name,
        private: repo.private,
        internal: repo.internal,
        language: repo.language,
        has_go_mod: None,
    }
}

impl Source for GitHubSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn policy(&self) -> String {
        // Whether other paths are believed depends on the kind of source alone.
        format!("{}", matches!(self.owner, Owner::Everything))
    }

    fn list(&self, cursor: Option<String>) -> SourceFuture<'_, Listing> {
        Box::pin(async move {
            match self.graphql_page(cursor.as_deref()).await? {
                Some(listing) => Ok(listing),
                None => {
                    // A list that GraphQL began begins again.
                    let cursor = cursor.filter(|cursor| !graphql::is_cursor(cursor));
                    self.rest_page(cursor).await
                }
            }
        })
    }

    fn tags<'a>(&'a self, repo: &'a str, query: TagsQuery) -> SourceFuture<'a, Tags> {
        Box::pin(self.tag_page(repo, query))
    }

    fn is_same_page<'a>(
        &'a self,
        repo: &'a str,
        page: Option<String>,
        etag: String,
    ) -> SourceFuture<'a, bool> {
        Box::pin(self.is_same_rest_page(repo, page, etag))
    }

    fn confirm_gone<'a>(
        &'a self,
        repo: &'a str,
        names: Vec<String>,
    ) -> SourceFuture<'a, Vec<String>> {
        Box::pin(self.confirmed_gone(repo, names))
    }

    fn is_there<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, Option<Audience>> {
        Box::pin(async move {
            let found = self.facts(repo).await?;
            Ok(found.and_then(|found| self.audience(&found)))
        })
    }

    /// It may have become private since the latest listing.
    fn admits<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, Option<Audience>> {
        self.is_there(repo)
    }

    fn created<'a>(&'a self, repo: &'a str, tag: &'a TagAt) -> SourceFuture<'a, i64> {
        Box::pin(async move {
            let name = self.repo_name(repo)?;
            let failed = |error: GitHubError| about_one(&error);
            if tag.object != tag.commit {
                let tagged = self.github.tag_time(&name, tag.object, tag.commit).await;
                if let Some(at) = tagged.map_err(failed)? {
                    return Ok(at);
                }
            }
            let time = self.github.commit_time(&name, tag.commit).await;
            time.map_err(failed)
        })
    }

    fn go_mod<'a>(
        &'a self,
        repo: &'a str,
        commit: &'a Oid,
        dir: &'a str,
    ) -> SourceFuture<'a, GoMod> {
        Box::pin(async move {
            let name = self.repo_name(repo)?;
            let path = go_mod_path(dir);
            let most = go_mod::MAX_BYTES as u64;
            match self.github.file(&name, *commit, &path, most).await {
                Ok(Some(text)) => Ok(GoMod::Text(text)),
                Ok(None) => Ok(GoMod::Absent),
                Err(GitHubError::TooBig { .. }) => Ok(GoMod::TooLarge),
                Err(error) => Err(about_one(&error)),
            }
        })
    }

    fn go_mods<'a>(
        &'a self,
        repo: &'a str,
        places: Vec<(Oid, String)>,
    ) -> SourceFuture<'a, Vec<(Oid, String, GoMod)>> {
        Box::pin(self.graphql_go_mods(repo, places))
    }

    fn location(&self, repo: &str) -> Option<ModulePath> {
        ModulePath::parse(repo).ok()
    }

    fn trusts(&self, repo: &str, path: &ModulePath) -> Trust {
        let (repo, path) = (
            repo.to_ascii_lowercase(),
            path.as_str().to_ascii_lowercase(),
        );
        let rest = path.strip_prefix(&repo);
        let is_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match (is_below, &self.owner) {
            (true, _) => Trust::Proven,
            (false, Owner::Org(_) | Owner::User(_)) => Trust::Chosen,
            (false, Owner::Everything) => Trust::Refused,
        }
    }

    fn takes_private(&self) -> bool {
        self.options.private > PrivateRepos::None
    }

    fn covers(&self, host: &str, owner: &str, repo: &str) -> Option<String> {
        let name = RepoName::new(owner, repo).ok()?;
        let is_ours = match &self.owner {
            Owner::Org(login) | Owner::User(login) => Login::is_same(login, name.owner()),
            Owner::Everything => true,
        };
        let is_here = host.eq_ignore_ascii_case(&self.host);
        (is_here && is_ours).then(|| format!("{}/{name}", self.host))
    }
}

/// The path of the `go.mod` in a directory.
fn go_mod_path(dir: &str) -> String {
    match dir {
        "" => "go.mod".to_owned(),
        dir => format!("{dir}/go.mod"),
    }
}
