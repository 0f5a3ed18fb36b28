//! Commits and files.

use bytes::Bytes;
use grip_types::Oid;
use jiff::Timestamp;
use serde::Deserialize;
use url::Url;

use crate::{
    GitHub,
    error::GitHubError,
    gateway::{ApiRequest, Inner, RAW},
    json,
    name::RepoName,
};

/// Longest path of a file that is asked for.
const MAX_PATH_BYTES: usize = 4096;

#[derive(Deserialize)]
struct Commit {
    sha: Oid,
    committer: Person,
}

#[derive(Deserialize)]
struct Person {
    date: Timestamp,
}

impl GitHub {
    /// When a commit was made, in milliseconds since 1970.
    pub async fn commit_time(&self, repo: &RepoName, commit: Oid) -> Result<i64, GitHubError> {
        let url = self
            .inner
            .repo_url(repo, &["git", "commits", &commit.to_hex()]);
        let whole = self.whole(ApiRequest::json(url)).await?;
        let found: Commit = json::read(&whole.body)?;
        if found.sha != commit {
            return Err(GitHubError::malformed(format!(
                "commit {} instead of {commit}",
                found.sha
            )));
        }
        self.inner.recent.note(repo);
        Ok(found.committer.date.as_millisecond())
    }

    /// A file as it is in a commit; none where there is no file at that path.
    ///
    /// A missing repository or commit is [`GitHubError::NotFound`]. The host does not tell a
    /// missing file from a missing repository, so this asks for the repository, unless another
    /// call found it within the last minute.
    pub async fn file(
        &self,
        repo: &RepoName,
        commit: Oid,
        path: &str,
        max_bytes: u64,
    ) -> Result<Option<Bytes>, GitHubError> {
        let ask = ApiRequest {
            accept: RAW,
            max_bytes,
            ..ApiRequest::json(self.inner.file_url(repo, commit, path)?)
        };
        let whole = match self.whole(ask).await {
            Ok(whole) => whole,
            Err(error) => return self.missing(repo, error).await.map(|()| None),
        };
        self.inner.recent.note(repo);
        match whole.kind().to_ascii_lowercase().as_str() {
            // What a directory is answered with.
            "application/json" => Ok(None),
            "text/html" | "application/xhtml+xml" => {
                Err(GitHubError::malformed("a web page instead of a file"))
            }
            _ => Ok(Some(whole.body)),
        }
    }

    /// Tells a missing file, which is no error, from all else.
    async fn missing(&self, repo: &RepoName, error: GitHubError) -> Result<(), GitHubError> {
        let GitHubError::NotFound { message } = &error else {
            return Err(error);
        };
        if message.to_ascii_lowercase().contains("no commit found") {
            return Err(error);
        }
        if self.inner.recent.is_there(repo) {
            return Ok(());
        }
        self.repository(repo).await.map(drop)
    }
}

impl Inner {
    /// The URL of a path below the base.
    pub(crate) fn url(&self, parts: &[&str]) -> Url {
        let mut url = self.base.clone();
        let mut path = url.path_segments_mut().expect("because it is an http URL");
        path.pop_if_empty().extend(parts);
        drop(path);
        url
    }

    pub(crate) fn repo_url(&self, repo: &RepoName, parts: &[&str]) -> Url {
        let start = ["repos", repo.owner().as_str(), repo.name()];
        self.url(&[&start, parts].concat())
    }

    fn file_url(&self, repo: &RepoName, commit: Oid, path: &str) -> Result<Url, GitHubError> {
        let parts: Vec<_> = path.split('/').collect();
        // A part that means another directory would change which URL is asked.
        let is_bad = |part: &&str| {
            matches!(*part, "" | "." | "..") || part.contains(|c: char| c.is_control())
        };
        if path.len() > MAX_PATH_BYTES || parts.iter().any(is_bad) {
            return Err(GitHubError::Path {
                path: path.chars().take(300).collect(),
            });
        }
        let mut url = self.repo_url(repo, &[&["contents"], parts.as_slice()].concat());
        let mut query = url.query_pairs_mut();
        query.append_pair("ref", &commit.to_hex());
        drop(query);
        Ok(url)
    }

    /// Forgets a repository that is not there any more.
    pub(crate) fn note_error(&self, repo: &RepoName, error: &GitHubError) {
        if matches!(error, GitHubError::NotFound { .. } | GitHubError::Gone) {
            self.recent.forget(repo);
        }
    }
}
