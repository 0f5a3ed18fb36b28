//! Classification of responses.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use grip_limits::response::{Reading, ResponseKind};
use http::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, ETAG, LOCATION},
};
use url::Url;

use crate::{
    error::GitHubError,
    json,
    response::{Etag, Response},
};

/// How long to wait where the host names no time.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// A success with its body.
#[derive(Debug)]
pub(crate) struct Success {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Where it came from in the end.
    pub(crate) url: Url,
    /// Whether a redirect led there.
    pub(crate) was_moved: bool,
}

impl Success {
    pub(crate) fn etag(&self) -> Option<Etag> {
        let text = self.headers.get(ETAG)?.to_str().ok()?;
        Etag::parse(text)
    }

    /// The kind of content, without its parameters.
    pub(crate) fn kind(&self) -> &str {
        let kind = self.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        kind.split(';').next().unwrap_or_default().trim()
    }
}

/// The outcome of one call.
pub(super) enum Outcome {
    Step(Step),
    /// The token is not accepted; another may be.
    Unauthorised,
    /// The token's budget is spent; another's may not be.
    Spent,
}

/// A response, or the way to it.
pub(super) enum Step {
    Received(Response<Box<Success>>),
    /// With the place as the host wrote it.
    Moved(String),
}

/// A response as it came.
pub(super) struct RawResponse {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) url: Url,
    pub(super) body: Bytes,
    pub(super) reading: Reading,
    /// Whether it says that nothing is left of its budget.
    pub(super) is_spent: bool,
}

/// Tells what a response means.
pub(super) fn classify(raw: RawResponse) -> Result<Outcome, GitHubError> {
    let status = raw.status.as_u16();
    match status {
        200..=299 => {
            let success = Box::new(Success {
                headers: raw.headers,
                body: raw.body,
                url: raw.url,
                was_moved: false,
            });
            Ok(Outcome::Step(Step::Received(Response::Fresh(success))))
        }
        304 => Ok(Outcome::Step(Step::Received(Response::NotModified))),
        301 | 302 | 307 | 308 => {
            let place = raw.headers.get(LOCATION);
            let place = place.and_then(|place| place.to_str().ok());
            let place = place.ok_or_else(|| GitHubError::malformed("a redirect to nowhere"))?;
            Ok(Outcome::Step(Step::Moved(place.to_owned())))
        }
        _ => match raw.reading.kind {
            ResponseKind::RateLimited { secondary } => limited(&raw, secondary),
            _ => Err(refusal(&raw, status)),
        },
    }
}

fn limited(raw: &RawResponse, secondary: bool) -> Result<Outcome, GitHubError> {
    if raw.is_spent && !secondary {
        return Ok(Outcome::Spent);
    }
    let wait = raw
        .reading
        .advice
        .map_or(DEFAULT_WAIT, |advice| advice.wait);
    let wait_s = wait.as_secs();
    tracing::warn!(secondary, wait_s, "GitHub refused a call by rate limit");
    Err(GitHubError::RateLimited {
        until: SystemTime::now() + wait,
        secondary,
    })
}

fn refusal(raw: &RawResponse, status: u16) -> GitHubError {
    let message = json::message(&raw.body);
    match (raw.reading.kind, status) {
        (ResponseKind::AccessDenied, _) => GitHubError::AccessDenied { message },
        (ResponseKind::ServerError, _) => GitHubError::Server { status },
        (_, 404) => GitHubError::NotFound { message },
        (_, 410) => GitHubError::Gone,
        (_, 400..=499) => GitHubError::Client { status, message },
        _ => GitHubError::malformed(format!("status {status}")),
    }
}
