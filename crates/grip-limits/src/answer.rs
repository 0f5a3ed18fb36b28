//! Reads what a host's answer says about asking it again.
//!
//! Pure, and safe against hostile headers: whatever they hold, the outcome is one of the few
//! answers below and a wait of at most [`Advice::LONGEST`].

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header::RETRY_AFTER};

use crate::Verdict;

mod quota;
mod when;

/// How much of a body is looked at for the words of a rate limit.
const BODY_LOOK: usize = 4 * 1024;

/// How long a host is left alone that refused by rate limit without naming a time.
const UNSAID_WAIT: Duration = Duration::from_secs(60);

/// A host's wish to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    pub wait: Duration,
    pub why: Why,
}

/// How a host said that it wants to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// By `Retry-After`.
    RetryAfter,
    /// By telling that nothing remains of a rate limit.
    RateLimit,
    /// By refusing for a rate limit, without a word about the time.
    Unsaid,
}

/// What kind of answer it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
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

/// All that an answer says about its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub answer: Answer,
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

/// Reads status and headers; of the body only the start, to tell a rate limit from a closed door.
pub fn read(
    status: StatusCode,
    headers: &HeaderMap,
    body_start: &[u8],
    now: SystemTime,
) -> Reading {
    let retry_after = retry_after(status, headers, now);
    let quota = quota::read(headers, now);
    let answer = classify(status, headers, quota.is_some(), body_start);
    let unsaid = Advice::new(UNSAID_WAIT, Why::Unsaid);
    let said = [retry_after, quota].into_iter().flatten();
    // The longer one: both bind us.
    let advice = said.max_by_key(|advice| advice.wait).or_else(|| {
        let limited = matches!(answer, Answer::RateLimited { .. });
        limited.then_some(unsaid)
    });
    Reading {
        answer,
        verdict: verdict(answer),
        advice,
    }
}

fn classify(status: StatusCode, headers: &HeaderMap, spent: bool, body_start: &[u8]) -> Answer {
    match status {
        StatusCode::NOT_MODIFIED => Answer::NotModified,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN => {
            refusal(status, headers, spent, body_start)
        }
        _ if status.is_server_error() => Answer::ServerError,
        _ if status.is_client_error() => Answer::ClientError,
        _ => Answer::Fine,
    }
}

/// Tells a rate limit from a closed door.
fn refusal(status: StatusCode, headers: &HeaderMap, spent: bool, body_start: &[u8]) -> Answer {
    let body = &body_start[..body_start.len().min(BODY_LOOK)];
    if spent {
        Answer::RateLimited { secondary: false }
    } else if headers.contains_key(RETRY_AFTER) {
        Answer::RateLimited { secondary: true }
    } else if status == StatusCode::TOO_MANY_REQUESTS || says(body, b"rate limit") {
        let secondary = says(body, b"secondary rate limit");
        Answer::RateLimited { secondary }
    } else {
        Answer::AccessDenied
    }
}

fn says(body: &[u8], words: &[u8]) -> bool {
    body.windows(words.len())
        .any(|part| part.eq_ignore_ascii_case(words))
}

fn verdict(answer: Answer) -> Verdict {
    match answer {
        Answer::Fine | Answer::NotModified => Verdict::Success,
        Answer::ServerError => Verdict::Failure,
        Answer::RateLimited { .. } | Answer::AccessDenied | Answer::ClientError => Verdict::Neutral,
    }
}

/// What `Retry-After` says, where it has a meaning: not beside a success.
fn retry_after(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<Advice> {
    if status.is_success() || status == StatusCode::NOT_MODIFIED {
        return None;
    }
    let values = headers.get_all(RETRY_AFTER).iter().take(quota::MAX_VALUES);
    let waits = values.filter_map(|value| when::retry_after(value.to_str().ok()?, now));
    let wait = waits.max().filter(|wait| !wait.is_zero())?;
    Some(Advice::new(wait, Why::RetryAfter))
}

#[cfg(test)]
mod tests;
