//! People and repositories word for word, for those who keep them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Etag, GitHub,
    error::GitHubError,
    gateway::{ApiRequest, Received, Success},
    json,
    name::{Login, RepoName},
};

/// Which repository is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepoKey {
    /// Whatever its name is by now.
    Id(u64),
    Name(RepoName),
}

/// What GitHub says, unless it is the same as before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    Fresh {
        /// The host's own number, which never changes.
        id: u64,
        /// A JSON object, as it was written.
        text: String,
        etag: Option<Etag>,
    },
    NotModified,
}

#[derive(Deserialize)]
struct User {
    id: u64,
    login: String,
}

#[derive(Deserialize)]
struct Repo {
    id: u64,
    full_name: String,
}

impl GitHub {
    /// A person or an organisation. With a mark, for changes only.
    pub async fn user_raw(
        &self,
        login: &Login,
        etag: Option<&Etag>,
    ) -> Result<Record, GitHubError> {
        let url = self.inner.url(&["users", login.as_str()]);
        let ask = ApiRequest {
            etag,
            ..ApiRequest::json(url)
        };
        let Received::Success(whole) = self.ask(&ask).await? else {
            return Ok(Record::NotModified);
        };
        let found: User = json::read(&whole.body)?;
        if !whole.was_moved && !found.login.eq_ignore_ascii_case(login.as_str()) {
            return Err(GitHubError::malformed(format!(
                "another account than {login}"
            )));
        }
        record(found.id, &whole)
    }

    /// A repository, found under its old name too. With a mark, for changes only.
    pub async fn repository_raw(
        &self,
        repo: &RepoKey,
        etag: Option<&Etag>,
    ) -> Result<Record, GitHubError> {
        let url = match repo {
            RepoKey::Id(id) => self.inner.url(&["repositories", &id.to_string()]),
            RepoKey::Name(name) => self.inner.repo_url(name, &[]),
        };
        let ask = ApiRequest {
            etag,
            ..ApiRequest::json(url)
        };
        let Received::Success(whole) = self.ask(&ask).await? else {
            return Ok(Record::NotModified);
        };
        let found: Repo = json::read(&whole.body)?;
        let is_other = match repo {
            RepoKey::Id(id) => *id != found.id,
            RepoKey::Name(name) => {
                !whole.was_moved && !found.full_name.eq_ignore_ascii_case(&name.to_string())
            }
        };
        if is_other {
            return Err(GitHubError::malformed(
                "another repository than was asked for",
            ));
        }
        record(found.id, &whole)
    }
}

fn record(id: u64, whole: &Success) -> Result<Record, GitHubError> {
    let text: Box<RawValue> = json::read(&whole.body)?;
    Ok(Record::Fresh {
        id,
        text: text.get().to_owned(),
        etag: whole.etag(),
    })
}
