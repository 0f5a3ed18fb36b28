//! Rate limit headers.
//!
//! They were drafted three times and invented before that:
//! - `X-RateLimit-Remaining` and `-Reset`, the reset as a moment or a span; also `X-Rate-Limit-…`;
//! - `RateLimit-Remaining` and `RateLimit-Reset`, a span by the draft and a moment in the wild;
//! - `RateLimit: limit=100, remaining=0, reset=50`;
//! - `RateLimit: "burst";r=0;t=50, "day";r=900;t=3600`.
//!
//! Only a limit of which nothing remains is advice; a limit with something left is not.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::{Advice, DEFAULT_WAIT, Why, time};

/// Values of one field that are looked at.
pub(super) const MAX_VALUES: usize = 8;

/// Limits in one value that are looked at.
const MAX_LIMITS: usize = 16;

/// A reset of "now" must not become a tight loop.
const SHORTEST: Duration = Duration::from_secs(1);

pub(super) const PAIRS: [(&str, &str); 3] = [
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-rate-limit-remaining", "x-rate-limit-reset"),
    ("ratelimit-remaining", "ratelimit-reset"),
];

/// How long to wait, if some limit is spent.
pub(super) fn read(headers: &HeaderMap, now: SystemTime) -> Option<Advice> {
    let pairs = PAIRS
        .iter()
        .filter_map(|pair| pair_wait(headers, pair, now));
    let listed = values(headers, "ratelimit").flat_map(|value| listed_waits(value, now));
    let wait = pairs.chain(listed).max()?;
    Some(Advice::new(wait.max(SHORTEST), Why::RateLimit))
}

fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let all = headers.get_all(name).iter().take(MAX_VALUES);
    all.filter_map(|value| value.to_str().ok())
}

/// Two fields, one for what remains and one for the reset.
fn pair_wait(
    headers: &HeaderMap,
    pair: &(&'static str, &'static str),
    now: SystemTime,
) -> Option<Duration> {
    let (remaining, reset) = *pair;
    let is_spent = values(headers, remaining).any(|value| is_zero(first(value)));
    if !is_spent {
        return None;
    }
    // A date has a comma in it, so the whole value is tried too.
    let resets = values(headers, reset)
        .filter_map(|value| time::reset(first(value), now).or_else(|| time::reset(value, now)));
    Some(resets.max().unwrap_or(DEFAULT_WAIT))
}

/// One field with all limits, in either of its two forms.
fn listed_waits(value: &str, now: SystemTime) -> Vec<Duration> {
    let items = value.split(',').take(MAX_LIMITS);
    let is_keyed = value.contains("remaining=");
    if is_keyed {
        // One limit, spread over the items.
        return spent(items, "remaining", "reset", now)
            .into_iter()
            .collect();
    }
    items
        .filter_map(|item| spent(item.split(';'), "r", "t", now))
        .collect()
}

/// The wait of one limit, if nothing remains of it.
fn spent<'a>(
    parts: impl Iterator<Item = &'a str>,
    remaining: &str,
    reset: &str,
    now: SystemTime,
) -> Option<Duration> {
    let (mut is_spent, mut wait) = (false, None);
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key.trim() {
            key if key == remaining => is_spent = is_zero(value),
            key if key == reset => wait = time::reset(value, now),
            _ => {}
        }
    }
    is_spent.then(|| wait.unwrap_or(DEFAULT_WAIT))
}

/// The value without its further items and parameters.
fn first(value: &str) -> &str {
    value.split([',', ';']).next().unwrap_or_default()
}

fn is_zero(value: &str) -> bool {
    time::whole_seconds(value) == Some(0)
}
