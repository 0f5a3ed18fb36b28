//! The tags of a repository.

use grip_types::Oid;
use jiff::Timestamp;
use serde::Deserialize;

use crate::{
    Etag, GitHub,
    error::GitHubError,
    gateway::ApiRequest,
    json, link,
    name::RepoName,
    page::{Cursor, Page},
    repositories::set_place,
    response::Response,
};

/// Longest list of what tags are at, which has no pages: some 200,000 tags.
const MAX_REFS_BYTES: u64 = 64 << 20;

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

/// What a tag is at. Nothing is checked about its name but that it is text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagRef {
    pub name: String,
    pub object: Oid,
    /// Whether that is a tag object.
    pub is_annotated: bool,
}

#[derive(Deserialize)]
struct WrittenRef {
    #[serde(rename = "ref")]
    name: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    sha: Oid,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct TagObject {
    sha: Oid,
    tagger: Option<Tagger>,
    object: Object,
}

#[derive(Deserialize)]
struct Tagger {
    date: Timestamp,
}

impl GitHub {
    /// What the tags of `repo` are at. GitHub lists all of them at once; a host that has pages is
    /// followed.
    pub async fn tag_refs(
        &self,
        repo: &RepoName,
        page: Option<Cursor>,
    ) -> Result<Page<TagRef>, GitHubError> {
        let inner = &self.inner;
        let at = page.unwrap_or(Cursor::FIRST_PAGE);
        let mut url = inner.repo_url(repo, &["git", "matching-refs", "tags", ""]);
        set_place(&mut url, at);
        let ask = ApiRequest {
            max_bytes: MAX_REFS_BYTES,
            ..ApiRequest::json(url)
        };
        let whole = self.whole(ask).await?;
        let written: Vec<WrittenRef> = json::read(&whole.body)?;
        let next = link::next(&whole.headers, &inner.base, &whole.url)?;
        let next = next.map(|next| at.advance(&next, None, inner.max_pages));
        let tags = written.into_iter().filter_map(|tag| {
            Some(TagRef {
                name: tag.name.strip_prefix("refs/tags/")?.to_owned(),
                object: tag.object.sha,
                is_annotated: tag.object.kind == "tag",
            })
        });
        Ok(Page {
            items: tags.collect(),
            next: next.transpose()?,
            etag: whole.etag(),
        })
    }

    /// Whether there is such a tag. No page can shift under this.
    pub async fn is_tag(&self, repo: &RepoName, name: &str) -> Result<bool, GitHubError> {
        let parts: Vec<_> = ["git", "ref", "tags"]
            .into_iter()
            .chain(name.split('/'))
            .collect();
        let is_odd = |part: &&str| matches!(*part, "" | "." | "..");
        if parts.iter().any(is_odd) {
            // No name of git's, and the URL would mean another path.
            return Ok(false);
        }
        let url = self.inner.repo_url(repo, &parts);
        match self.whole(ApiRequest::json(url)).await {
            Ok(whole) => {
                let found: WrittenRef = json::read(&whole.body)?;
                Ok(found.name == format!("refs/tags/{name}"))
            }
            Err(GitHubError::NotFound { .. }) => {
                // The host responds alike where the whole repository is missing.
                self.repository(repo).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// When a tag object was made, in milliseconds since 1970; none where it does not say. It must
    /// be at `commit`, unless it is at another tag object.
    pub async fn tag_time(
        &self,
        repo: &RepoName,
        object: Oid,
        commit: Oid,
    ) -> Result<Option<i64>, GitHubError> {
        let url = self
            .inner
            .repo_url(repo, &["git", "tags", &object.to_hex()]);
        let whole = self.whole(ApiRequest::json(url)).await?;
        let found: TagObject = json::read(&whole.body)?;
        let is_elsewhere = found.object.kind == "commit" && found.object.sha != commit;
        if found.sha != object || is_elsewhere {
            return Err(GitHubError::malformed(format!(
                "tag object {} instead of {object} at {commit}",
                found.sha
            )));
        }
        self.inner.recent.note(repo);
        Ok(found.tagger.map(|tagger| tagger.date.as_millisecond()))
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
