//! Repositories: one, or all of an owner or the host.

use jiff::Timestamp;
use serde::Deserialize;
use url::Url;

use crate::{
    GitHub,
    error::GitHubError,
    gateway::{ApiRequest, Success},
    json, link,
    name::{Owner, RepoName},
    page::{Cursor, Page, Place},
};

/// Items on a page, the most that GitHub gives.
pub(crate) const PER_PAGE: u32 = 100;

/// What GitHub says about a repository.
///
/// The list of all repositories of a host is short about each: there, `archived` is never set
/// and what is optional is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub id: u64,
    /// The name as it is now; after a move another than was asked for.
    pub full_name: RepoName,
    pub archived: bool,
    pub fork: bool,
    pub private: bool,
    /// Whether all members of the enterprise may see it; then `private` is set, too.
    pub internal: bool,
    pub default_branch: Option<String>,
    /// Milliseconds since 1970.
    pub pushed_at: Option<i64>,
    pub clone_url: Url,
    pub topics: Vec<String>,
    pub language: Option<String>,
}

/// A repository as it is written.
#[derive(Deserialize)]
struct Written {
    id: u64,
    full_name: String,
    archived: Option<bool>,
    #[serde(default)]
    fork: bool,
    private: bool,
    visibility: Option<String>,
    default_branch: Option<String>,
    pushed_at: Option<Timestamp>,
    clone_url: Option<Url>,
    html_url: Option<Url>,
    topics: Option<Vec<String>>,
    language: Option<String>,
}

impl GitHub {
    /// A repository. One that was renamed is found under its old name too.
    pub async fn repository(&self, repo: &RepoName) -> Result<Repository, GitHubError> {
        let url = self.inner.repo_url(repo, &[]);
        let whole = self.whole(ApiRequest::json(url)).await;
        let whole = whole.inspect_err(|error| self.inner.note_error(repo, error))?;
        let found: Repository = json::read::<Written>(&whole.body)?.try_into()?;
        if !whole.was_moved && !found.full_name.is_same(repo) {
            return Err(GitHubError::malformed(format!(
                "{} instead of {repo}",
                found.full_name
            )));
        }
        self.inner.recent.note(repo);
        Ok(found)
    }

    /// A page of the repositories of `owner`, the oldest first, so that new ones move no other
    /// to another page.
    pub async fn repositories(
        &self,
        owner: &Owner,
        page: Option<Cursor>,
    ) -> Result<Page<Repository>, GitHubError> {
        let inner = &self.inner;
        let (path, first, most) = match owner {
            Owner::Org(login) => (
                vec!["orgs", login.as_str(), "repos"],
                Cursor::FIRST_PAGE,
                inner.max_pages,
            ),
            Owner::User(login) => (
                vec!["users", login.as_str(), "repos"],
                Cursor::FIRST_PAGE,
                inner.max_pages,
            ),
            Owner::Everything => (vec!["repositories"], Cursor::FIRST_ID, inner.max_host_pages),
        };
        let at = page.unwrap_or(first);
        let mut url = inner.url(&path);
        set_place(&mut url, at);
        if !matches!(owner, Owner::Everything) {
            let mut query = url.query_pairs_mut();
            query
                .append_pair("sort", "created")
                .append_pair("direction", "asc");
        }
        let whole = self.whole(ApiRequest::json(url)).await?;
        let written: Vec<Written> = json::read(&whole.body)?;
        let items = written.into_iter().map(Repository::try_from);
        let items: Vec<_> = items.collect::<Result<_, _>>()?;
        check_owner(owner, &whole, &items)?;
        let last = items.iter().map(|repo| repo.id).max();
        let next = link::next(&whole.headers, &inner.base, &whole.url)?;
        let next = next.map(|next| at.advance(&next, last, most)).transpose()?;
        let etag = whole.etag();
        Ok(Page { items, next, etag })
    }
}

/// Puts the place of a page into a query.
pub(crate) fn set_place(url: &mut Url, at: Cursor) {
    let mut query = url.query_pairs_mut();
    query.append_pair("per_page", &PER_PAGE.to_string());
    match at.place {
        Place::Page(page) => query.append_pair("page", &page.to_string()),
        Place::After(id) => query.append_pair("since", &id.to_string()),
    };
}

fn check_owner(owner: &Owner, whole: &Success, items: &[Repository]) -> Result<(), GitHubError> {
    let (Owner::Org(login) | Owner::User(login)) = owner else {
        return Ok(());
    };
    let mut others = items
        .iter()
        .filter(|repo| !repo.full_name.owner().is_same(login));
    match others.next() {
        Some(other) if !whole.was_moved => Err(GitHubError::malformed(format!(
            "{} among the repositories of {login}",
            other.full_name
        ))),
        _ => Ok(()),
    }
}

impl TryFrom<Written> for Repository {
    type Error = GitHubError;

    fn try_from(written: Written) -> Result<Self, GitHubError> {
        let name = RepoName::parse(&written.full_name);
        let full_name = name.map_err(|error| GitHubError::malformed(error.to_string()))?;
        let clone_url = written.clone_url.or_else(|| {
            let mut url = written.html_url?;
            url.set_path(&format!("{}.git", url.path().trim_end_matches('/')));
            Some(url)
        });
        let is_plain = |url: &Url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && url.username().is_empty()
                && url.password().is_none()
        };
        let Some(clone_url) = clone_url.filter(is_plain) else {
            return Err(GitHubError::malformed(format!(
                "{full_name} without a URL to clone it from"
            )));
        };
        Ok(Self {
            id: written.id,
            full_name,
            archived: written.archived.unwrap_or_default(),
            fork: written.fork,
            private: written.private,
            internal: written.visibility.as_deref() == Some("internal"),
            default_branch: written.default_branch,
            pushed_at: written.pushed_at.map(Timestamp::as_millisecond),
            clone_url,
            topics: written.topics.unwrap_or_default(),
            language: written.language,
        })
    }
}
