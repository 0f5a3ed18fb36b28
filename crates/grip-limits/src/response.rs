//! Classification of responses: rate limits, `Retry-After`, and what they say of a host's health.
//!
//! Pure, and safe against hostile headers: whatever they hold, the outcome is one of the few
//! kinds below and a wait of at most [`Advice::LONGEST`].

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};

use crate::Verdict;

mod rate_limit;
mod time;

/// How much of a body is looked at for the words of a rate limit.
const BODY_LOOK: usize = 4 * 1024;

/// How long a host is left alone that refused by rate limit without naming a time.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// A host's request to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    pub wait: Duration,
    pub why: Why,
}

/// How a host asked to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// By `Retry-After`.
    RetryAfter,
    /// By saying that nothing remains of a rate limit.
    RateLimit,
    /// By refusing for a rate limit without naming a time.
    Unspecified,
}

/// The kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseKind {
    Fine,
    NotModified,
    /// Trying later helps. `secondary`: a limit on bursts rather than the counted one.
    RateLimited {
        secondary: bool,
    },
    /// Trying again does not help.
    AccessDenied,
    ClientError,
    ServerError,
}

/// All that a response says about its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub kind: ResponseKind,
    pub verdict: Verdict,
    pub advice: Option<Advice>,
}

impl Advice {
    /// Nobody makes us wait longer than a day.
    pub const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

    /// Advice to wait `wait`, cut to [`Advice::LONGEST`].
    pub fn new(wait: Duration, why: Why) -> Self {
        let wait = wait.min(Self::LONGEST);
        Self { wait, why }
    }
}

/// Reads status and headers; of the body only the start, to tell a rate limit from denied access.
pub fn read(
    status: StatusCode,
    headers: &HeaderMap,
    body_start: &[u8],
    now: SystemTime,
) -> Reading {
    let retry_after = retry_after(status, headers, now);
    let quota = rate_limit::read(headers, now);
    let kind = classify(status, headers, quota.is_some(), body_start);
    let unspecified = Advice::new(DEFAULT_WAIT, Why::Unspecified);
    let named = [retry_after, quota].into_iter().flatten();
    // The longer one: both bind us.
    let advice = named.max_by_key(|advice| advice.wait).or_else(|| {
        let limited = matches!(kind, ResponseKind::RateLimited { .. });
        limited.then_some(unspecified)
    });
    Reading {
        kind,
        verdict: verdict(kind),
        advice,
    }
}

fn classify(
    status: StatusCode,
    headers: &HeaderMap,
    spent: bool,
    body_start: &[u8],
) -> ResponseKind {
    match status {
        StatusCode::NOT_MODIFIED => ResponseKind::NotModified,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN => {
            refusal(status, headers, spent, body_start)
        }
        _ if status.is_server_error() => ResponseKind::ServerError,
        _ if status.is_client_error() => ResponseKind::ClientError,
        _ => ResponseKind::Fine,
    }
}

/// Tells a rate limit from denied access.
fn refusal(
    status: StatusCode,
    headers: &HeaderMap,
    spent: bool,
    body_start: &[u8],
) -> ResponseKind {
    let body = &body_start[..body_start.len().min(BODY_LOOK)];
    if spent {
        ResponseKind::RateLimited { secondary: false }
    } else if headers.contains_key(RETRY_AFTER) {
        ResponseKind::RateLimited { secondary: true }
    } else if status == StatusCode::TOO_MANY_REQUESTS || says(body, b"rate limit") {
        let secondary = says(body, b"secondary rate limit");
        ResponseKind::RateLimited { secondary }
    } else {
        ResponseKind::AccessDenied
    }
}

fn says(body: &[u8], words: &[u8]) -> bool {
    body.windows(words.len())
        .any(|part| part.eq_ignore_ascii_case(words))
}

fn verdict(kind: ResponseKind) -> Verdict {
    match kind {
        ResponseKind::Fine | ResponseKind::NotModified => Verdict::Success,
        ResponseKind::ServerError => Verdict::Failure,
        ResponseKind::RateLimited { .. }
        | ResponseKind::AccessDenied
        | ResponseKind::ClientError => Verdict::Neutral,
    }
}

/// What `Retry-After` says, where it has a meaning: not beside a success.
fn retry_after(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<Advice> {
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return None;
    }
    let values = headers
        .get_all(RETRY_AFTER)
        .iter()
        .take(rate_limit::MAX_VALUES);
    let waits = values.filter_map(|value| time::retry_after(value.to_str().ok()?, now));
    let wait = waits.max().filter(|wait| !wait.is_zero())?;
    Some(Advice::new(wait, Why::RetryAfter))
}

#[cfg(test)]
mod tests;
