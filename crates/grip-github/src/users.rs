//! People and repositories word for word, for those who keep them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Etag, GitHub,
    error::GitHubError,
    gateway::Success,
    json,
    name::{Login, RepoName},
    response::Response,
};

/// Which repository is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepoKey {
    /// Whatever its name is by now.
    Id(u64),
    Name(RepoName),
}

/// What GitHub says about a person, an organisation or a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The host's own number, which never changes.
    pub id: u64,
    /// A JSON object, as it was written.
    pub text: String,
    pub etag: Option<Etag>,
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
    /// A person or an organisation. With an entity tag, for changes only.
    pub async fn user_raw(
        &self,
        login: &Login,
        etag: Option<&Etag>,
    ) -> Result<Response<Record>, GitHubError> {
        let url = self.inner.url(&["users", login.as_str()]);
        let Response::Fresh(whole) = self.ask_json(url, etag).await? else {
            return Ok(Response::NotModified);
        };
        let found: User = json::read(&whole.body)?;
        if !whole.was_moved && !found.login.eq_ignore_ascii_case(login.as_str()) {
            return Err(GitHubError::malformed(format!(
                "another account than {login}"
            )));
        }
        record(found.id, &whole)
    }

    /// A repository, found under its old name too. With an entity tag, for changes only.
    pub async fn repository_raw(
        &self,
        repo: &RepoKey,
        etag: Option<&Etag>,
    ) -> Result<Response<Record>, GitHubError> {
        let url = match repo {
            RepoKey::Id(id) => self.inner.url(&["repositories", &id.to_string()]),
            RepoKey::Name(name) => self.inner.repo_url(name, &[]),
        };
        let Response::Fresh(whole) = self.ask_json(url, etag).await? else {
            return Ok(Response::NotModified);
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

fn record(id: u64, whole: &Success) -> Result<Response<Record>, GitHubError> {
    let text: Box<RawValue> = json::read(&whole.body)?;
    Ok(Response::Fresh(Record {
        id,
        text: text.get().to_owned(),
        etag: whole.etag(),
    }))
}
