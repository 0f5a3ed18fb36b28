//! GraphQL queries: what REST needs many calls for, in one.
//!
//! They go through the same gateway as all calls, and are paid from the budget of points that
//! GitHub keeps for them. Names and paths are variables, never parts of a query's text.
//!
//! Invariant: an error in a response is an error of the call, also where it brought some data: no
//! list is shorter because a part of it failed.

mod facts;
mod files;
mod listing;
mod tags;

use bytes::Bytes;
use grip_types::Oid;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use url::Url;

pub use self::{
    facts::RepositoryFacts,
    files::{FileAt, MAX_PLACES},
    tags::{DatedTag, TagList},
};
use crate::{
    GitHub,
    error::GitHubError,
    gateway::{ApiRequest, Success},
    json,
    quota::{self, Resource},
};

/// Items on a page, the most that GitHub gives.
const PER_PAGE: u32 = 100;
/// Longest response: a hundred files of the usual size, with room.
const MAX_BYTES: u64 = 32 << 20;
/// Longest cursor that is kept.
const MAX_CURSOR: usize = 1_000;

#[derive(Deserialize)]
struct Envelope<T> {
    data: Option<T>,
    #[serde(default)]
    errors: Vec<QueryError>,
}

/// An error in a response with status 200.
#[derive(Deserialize)]
struct QueryError {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    extensions: Extensions,
}

#[derive(Default, Deserialize)]
struct Extensions {
    #[serde(default)]
    saml_failure: bool,
}

/// What every query asks about its own price.
#[derive(Deserialize)]
struct RateLimit {
    cost: u32,
    remaining: u32,
}

/// A part of a connection.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageInfo {
    has_next_page: bool,
    end_cursor: Option<String>,
}

impl PageInfo {
    /// Where the list goes on after `from`.
    fn next(self, from: Option<&str>) -> Result<Option<String>, GitHubError> {
        if !self.has_next_page {
            return Ok(None);
        }
        let is_fit = |cursor: &String| {
            let is_plain = cursor.bytes().all(|byte| byte.is_ascii_graphic());
            is_plain && (1..=MAX_CURSOR).contains(&cursor.len())
        };
        let next = self.end_cursor.filter(is_fit);
        let next = next.filter(|next| Some(next.as_str()) != from);
        let stuck = || GitHubError::malformed("the next page is not after this one");
        next.ok_or_else(stuck).map(Some)
    }
}

impl GitHub {
    /// Asks one query. `operation` is its name, for the log.
    async fn query<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        text: &str,
        variables: Value,
    ) -> Result<T, GitHubError> {
        #[derive(Deserialize)]
        struct WithLimit<T> {
            #[serde(rename = "rateLimit")]
            rate_limit: Option<RateLimit>,
            #[serde(flatten)]
            rest: T,
        }
        let body = json!({ "query": text, "variables": variables, "operationName": operation });
        let ask = ApiRequest {
            body: Some(Bytes::from(body.to_string())),
            resource: Some(Resource::GraphQl),
            max_bytes: MAX_BYTES,
            ..ApiRequest::json(graphql_url(&self.inner.base))
        };
        let whole = self.whole(ask).await.map_err(not_answered)?;
        let envelope: Envelope<WithLimit<T>> = json::read(&whole.body)?;
        if let Some(error) = envelope.errors.first() {
            return Err(error.classify(&whole));
        }
        let data = envelope.data;
        let data = data.ok_or_else(|| GitHubError::malformed("a response without data"))?;
        if let Some(limit) = &data.rate_limit {
            let (cost, remaining) = (limit.cost, limit.remaining);
            tracing::debug!(operation, cost, remaining, "GitHub answered a query");
        }
        Ok(data.rest)
    }
}

/// An endpoint that is not there says nothing about what was asked for.
fn not_answered(error: GitHubError) -> GitHubError {
    match error {
        GitHubError::NotFound { message } => GitHubError::Client {
            status: 404,
            message,
        },
        GitHubError::Gone => GitHubError::Client {
            status: 410,
            message: String::new(),
        },
        error => error,
    }
}

impl QueryError {
    fn classify(&self, whole: &Success) -> GitHubError {
        let message = json::printable(&self.message);
        let lower = message.to_ascii_lowercase();
        let wait = |secondary: bool| {
            let quota = quota::read(&whole.headers, SystemTime::now());
            let spent = quota.filter(|quota| quota.remaining == 0 && !secondary);
            let wait = spent.map_or(Duration::from_secs(60), |quota| quota.reset_in);
            GitHubError::RateLimited {
                until: SystemTime::now() + wait,
                secondary,
            }
        };
        match self.kind.as_deref().unwrap_or_default() {
            _ if lower.contains("secondary rate limit") => wait(true),
            "RATE_LIMITED" | "RATE_LIMIT" => wait(false),
            _ if self.extensions.saml_failure => GitHubError::AccessDenied { message },
            "FORBIDDEN" | "INSUFFICIENT_SCOPES" => GitHubError::AccessDenied { message },
            "NOT_FOUND" => GitHubError::NotFound { message },
            kind if kind.ends_with("LIMIT_EXCEEDED") || kind.ends_with("LIMITS_EXCEEDED") => {
                GitHubError::Client {
                    status: 200,
                    message,
                }
            }
            _ => GitHubError::malformed(format!("a query that failed: {message}")),
        }
    }
}

/// `https://api.github.com/graphql`, or `https://ghe.example/api/graphql` beside `/api/v3/`.
fn graphql_url(base: &Url) -> Url {
    let mut url = base.clone();
    let path = base.path().trim_end_matches('/');
    let above = path.strip_suffix("/v3").unwrap_or(path);
    url.set_path(&format!("{above}/graphql"));
    url
}

fn oid(text: &str) -> Result<Oid, GitHubError> {
    let read = Oid::from_hex(text.as_bytes());
    read.map_err(|_| GitHubError::malformed("an object id that is none"))
}

/// Reads a moment in milliseconds since 1970.
fn millis(text: &str) -> Result<i64, GitHubError> {
    let read: Result<jiff::Timestamp, _> = text.parse();
    let read = read.map_err(|_| GitHubError::malformed("a moment that is none"))?;
    Ok(read.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_lies_beside_the_rest_api() {
        for (base, expected) in [
            ("https://api.github.com/", "https://api.github.com/graphql"),
            (
                "https://ghe.example/api/v3/",
                "https://ghe.example/api/graphql",
            ),
        ] {
            assert_eq!(graphql_url(&base.parse().unwrap()).as_str(), expected);
        }
    }

    #[test]
    fn a_page_that_does_not_go_on_is_nonsense() {
        let page = |next: &str| PageInfo {
            has_next_page: true,
            end_cursor: Some(next.to_owned()),
        };
        assert_eq!(page("b").next(Some("a")).unwrap(), Some("b".to_owned()));
        for bad in ["a", "", "x y", &"x".repeat(MAX_CURSOR + 1)] {
            assert!(page(bad).next(Some("a")).is_err(), "{bad}");
        }
    }

    #[test]
    fn moments_with_offsets_are_read() {
        assert_eq!(millis("1970-01-01T01:00:01+01:00").unwrap(), 1_000);
        assert!(millis("yesterday").is_err());
    }
}
