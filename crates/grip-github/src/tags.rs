//! The tags of a repository.

use grip_types::Oid;
use serde::Deserialize;

use crate::{
    Etag, GitHub,
    error::GitHubError,
    json, link,
    name::RepoName,
    page::{Cursor, Page},
    repositories::set_place,
    response::Response,
};

/// A tag. Nothing is checked about its name but that it is text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    /// The commit, also where the tag is an object of its own.
    pub commit: Oid,
}

#[derive(Deserialize)]
struct Written {
    name: String,
    commit: Commit,
}

#[derive(Deserialize)]
struct Commit {
    sha: Oid,
    url: Option<String>,
}

impl GitHub {
    /// A page of the tags of `repo`. With the entity tag of the same page, for changes only.
    pub async fn tags(
        &self,
        repo: &RepoName,
        page: Option<Cursor>,
        etag: Option<&Etag>,
    ) -> Result<Response<Page<Tag>>, GitHubError> {
        let inner = &self.inner;
        let at = page.unwrap_or(Cursor::FIRST_PAGE);
        let mut url = inner.repo_url(repo, &["tags"]);
        set_place(&mut url, at);
        let response = self.ask_json(url, etag).await;
        let response = response.inspect_err(|error| inner.note_error(repo, error))?;
        inner.recent.note(repo);
        let Response::Fresh(whole) = response else {
            return Ok(Response::NotModified);
        };
        let written: Vec<Written> = json::read(&whole.body)?;
        if !whole.was_moved && written.iter().any(|tag| tag.is_elsewhere(repo)) {
            return Err(GitHubError::malformed(format!(
                "tags of another repository than {repo}"
            )));
        }
        let next = link::next(&whole.headers, &inner.base, &whole.url)?;
        let next = next.map(|next| at.advance(&next, None, inner.max_pages));
        let items = written.into_iter().map(|tag| Tag {
            name: tag.name,
            commit: tag.commit.sha,
        });
        Ok(Response::Fresh(Page {
            items: items.collect(),
            next: next.transpose()?,
            etag: whole.etag(),
        }))
    }
}

impl Written {
    /// Whether its commit is said to be in another repository.
    fn is_elsewhere(&self, repo: &RepoName) -> bool {
        let Some(url) = &self.commit.url else {
            return false;
        };
        let path = format!("/repos/{}/commits/", repo.folded());
        !url.to_ascii_lowercase().contains(&path)
    }
}
