//! Repositories on a GitHub host, as a source of the index.
//!
//! Invariants:
//! - Every call goes through the host's one gateway, and none waits: a limit becomes an error that
//!   says until when.
//! - A list of tags that a limit interrupts is continued, not begun again, however small the
//!   budget is, unless the tags have changed or somebody has asked for them in between.
//! - Private repositories stay out unless the operator wants them in, and so do their names.

mod errors;
mod partial_tag_lists;
mod tags;

use grip_github::{GitHub, GitHubError, Login, Owner, RepoName};
use grip_go::{ModulePath, go_mod};
use grip_types::Oid;

use self::{
    errors::{about_one, of_list, step},
    partial_tag_lists::PartialTagLists,
};
use crate::{GoMod, Listing, Occasion, Source, SourceError, SourceFuture, TagAt, Tags, Trust};

/// The repositories of an organisation, a user or a whole host.
pub struct GitHubSource {
    github: GitHub,
    name: String,
    host: String,
    owner: Owner,
    options: GitHubOptions,
    partial_lists: PartialTagLists,
}

/// What may be chosen about a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubOptions {
    /// Whether repositories that not everybody may see are in the feed, which everybody may see.
    /// Default: no.
    pub include_private: bool,
    /// Tags of one repository; one that has more is refused. Default: 200,000.
    pub max_tags: usize,
}

impl Default for GitHubOptions {
    fn default() -> Self {
        Self {
            include_private: false,
            max_tags: 200_000,
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
            partial_lists: PartialTagLists::default(),
        }
    }

    fn repo_name(&self, repo: &str) -> Result<RepoName, SourceError> {
        let rest = repo.strip_prefix(&self.host);
        let rest = rest.and_then(|rest| rest.strip_prefix('/'));
        let name = rest.and_then(|rest| RepoName::parse(rest).ok());
        name.ok_or_else(|| SourceError::Permanent(format!("{repo:?} is no repository here")))
    }

    fn is_wanted(&self, repo: &grip_github::Repository) -> bool {
        !repo.private || self.options.include_private
    }

    async fn page(&self, cursor: Option<String>) -> Result<Listing, SourceError> {
        let bad = |_| SourceError::Permanent("the place in the list is not one".to_owned());
        let cursor = cursor.map(|text| text.parse()).transpose().map_err(bad)?;
        let page = self.github.repositories(&self.owner, cursor).await;
        let page = page.map_err(|error| of_list(&error))?;
        let wanted = page.items.iter().filter(|repo| self.is_wanted(repo));
        Ok(Listing {
            repos: wanted
                .map(|repo| format!("{}/{}", self.host, repo.full_name))
                .collect(),
            next: page.next.map(|next| next.to_string()),
        })
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
        Box::pin(self.page(cursor))
    }

    fn tags<'a>(
        &'a self,
        repo: &'a str,
        etag: Option<String>,
        occasion: Occasion,
    ) -> SourceFuture<'a, Tags> {
        Box::pin(self.all_tags(repo, etag, occasion))
    }

    fn is_there<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, bool> {
        Box::pin(async move {
            let name = self.repo_name(repo)?;
            match self.github.repository(&name).await {
                // Under another name, even if only its case is other, it is another.
                Ok(found) => Ok(found.full_name == name && self.is_wanted(&found)),
                Err(
                    GitHubError::NotFound { .. }
                    | GitHubError::Gone
                    | GitHubError::Client { status: 451, .. },
                ) => Ok(false),
                Err(error) => Err(step(&error)),
            }
        })
    }

    /// It may have become private since the latest listing.
    fn admits<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, bool> {
        self.is_there(repo)
    }

    fn created<'a>(&'a self, repo: &'a str, tag: &'a TagAt) -> SourceFuture<'a, i64> {
        Box::pin(async move {
            let name = self.repo_name(repo)?;
            let time = self.github.commit_time(&name, tag.commit).await;
            time.map_err(|error| about_one(&error))
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
            let path = match dir {
                "" => "go.mod".to_owned(),
                dir => format!("{dir}/go.mod"),
            };
            let most = go_mod::MAX_BYTES as u64;
            match self.github.file(&name, *commit, &path, most).await {
                Ok(Some(text)) => Ok(GoMod::Text(text)),
                Ok(None) => Ok(GoMod::Absent),
                Err(GitHubError::TooBig { .. }) => Ok(GoMod::TooLarge),
                Err(error) => Err(about_one(&error)),
            }
        })
    }

    fn finished(&self, repo: &str) {
        self.partial_lists.remove(repo);
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
        self.options.include_private
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
