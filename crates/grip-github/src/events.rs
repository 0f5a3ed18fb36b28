//! Lists of events.

use std::{fmt, str::FromStr, time::Duration};

use serde_json::value::RawValue;

use crate::{
    Etag, GitHub,
    error::GitHubError,
    gateway::{ApiRequest, Success},
    json, link,
    name::{InvalidName, Login, RepoName},
    page::Cursor,
    repositories::set_place,
    response::Response,
};

/// Pages of a list that are read at most: GitHub itself keeps less.
const MAX_PAGES: u32 = 10;
/// Longest page: events may carry long texts.
const MAX_BYTES: u64 = 32 << 20;
/// Longest time between two looks that a host may ask for.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Whose events are meant. As text: `events`, `orgs/acme`, `users/jo`, `repos/acme/one`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventSource {
    /// All public events of the host.
    Public,
    Org(Login),
    /// The public events of a person.
    User(Login),
    Repo(RepoName),
}

/// Why a text names no events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEventSource {
    #[error("events are named as `events`, `orgs/NAME`, `users/NAME` or `repos/OWNER/NAME`")]
    Form,
    #[error(transparent)]
    Name(#[from] InvalidName),
}

/// A page of events, the latest first.
#[derive(Debug)]
pub struct EventsPage {
    /// Each as it was written, unread: one that is nonsense harms no other.
    pub events: Vec<Box<RawValue>>,
    /// The mark of this page alone.
    pub etag: Option<Etag>,
    /// How long the host wants to be left alone before the next look.
    pub poll_interval: Option<Duration>,
    pub next: Option<Cursor>,
}

impl GitHub {
    /// A page of recent events. With the entity tag of the same page, for changes only. New
    /// events move the others to later pages, also between two calls.
    pub async fn events(
        &self,
        source: &EventSource,
        page: Option<Cursor>,
        etag: Option<&Etag>,
    ) -> Result<Response<EventsPage>, GitHubError> {
        let inner = &self.inner;
        let at = page.unwrap_or(Cursor::FIRST_PAGE);
        let mut url = inner.url(&source.path());
        set_place(&mut url, at);
        let ask = ApiRequest {
            etag,
            max_bytes: MAX_BYTES,
            ..ApiRequest::json(url)
        };
        let Response::Fresh(whole) = self.ask(&ask).await? else {
            return Ok(Response::NotModified);
        };
        let events = json::read(&whole.body)?;
        let next = link::next(&whole.headers, &inner.base, &whole.url)?;
        let next = next.map(|next| at.advance(&next, None, MAX_PAGES));
        Ok(Response::Fresh(EventsPage {
            events,
            etag: whole.etag(),
            poll_interval: poll_interval(&whole),
            next: next.transpose()?,
        }))
    }
}

fn poll_interval(whole: &Success) -> Option<Duration> {
    let text = whole.headers.get("x-poll-interval")?.to_str().ok()?;
    let seconds = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_INTERVAL))
}

impl EventSource {
    fn path(&self) -> Vec<&str> {
        match self {
            Self::Public => vec!["events"],
            Self::Org(login) => vec!["orgs", login.as_str(), "events"],
            Self::User(login) => vec!["users", login.as_str(), "events", "public"],
            Self::Repo(repo) => vec!["repos", repo.owner().as_str(), repo.name(), "events"],
        }
    }
}

impl fmt::Display for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("events"),
            Self::Org(login) => write!(f, "orgs/{login}"),
            Self::User(login) => write!(f, "users/{login}"),
            Self::Repo(repo) => write!(f, "repos/{repo}"),
        }
    }
}

impl FromStr for EventSource {
    type Err = InvalidEventSource;

    fn from_str(text: &str) -> Result<Self, InvalidEventSource> {
        Ok(match text.split_once('/') {
            None if text == "events" => Self::Public,
            Some(("orgs", name)) => Self::Org(name.parse()?),
            Some(("users", name)) => Self::User(name.parse()?),
            Some(("repos", name)) => Self::Repo(name.parse()?),
            _ => return Err(InvalidEventSource::Form),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_and_written_alike() {
        for text in ["events", "orgs/acme", "users/jo-1", "repos/acme/one.git"] {
            let source: EventSource = text.parse().unwrap();
            assert_eq!(source.to_string(), text);
        }
        for text in [
            "", "Events", "orgs", "orgs/", "orgs/a/b", "repos/a", "users/..", "a/b",
        ] {
            assert!(text.parse::<EventSource>().is_err(), "{text}");
        }
    }
}
