//! Times and durations as hosts write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::{
    Timestamp,
    civil::DateTime,
    fmt::{rfc2822, strtime},
    tz::TimeZone,
};

/// Numbers from here on are seconds since 1970: as a span it would be more than thirty years.
const EPOCH_FROM: u64 = 1_000_000_000;

/// Numbers from here on are milliseconds since 1970.
const EPOCH_MS_FROM: u64 = 1_000_000_000_000;

/// Added to a moment of the host's clock, which need not be ours.
const CLOCK_MARGIN: Duration = Duration::from_secs(5);

/// Longest text that is looked at; the longest true one has about 40 characters.
const MAX_TEXT: usize = 64;

/// Forms that the parser for mail dates leaves: the newest form beyond its last day, and the two old ones.
const FORMS: [&str; 3] = [
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %e %H:%M:%S %Y",
];

/// The span in `Retry-After`: seconds, or a date.
pub(super) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if let Some(secs) = whole_seconds(text) {
        return Some(Duration::from_secs(secs));
    }
    Some(until(http_date(text)?, now))
}

/// The span in a reset field: seconds from now, or a moment in seconds or milliseconds.
pub(super) fn reset(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let Some(number) = whole_seconds(text) else {
        return Some(until(http_date(text)?, now) + CLOCK_MARGIN);
    };
    if number < EPOCH_FROM {
        return Some(Duration::from_secs(number));
    }
    let since_epoch = match number {
        EPOCH_MS_FROM.. => Duration::from_millis(number),
        _ => Duration::from_secs(number),
    };
    let moment = UNIX_EPOCH.checked_add(since_epoch);
    let wait = moment.map_or(Duration::MAX, |moment| until(moment, now));
    Some(wait.saturating_add(CLOCK_MARGIN))
}

/// A number, rounded up to whole ones; too large ones are the largest.
pub(super) fn whole_seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return None;
    }
    let more = u64::from(part.bytes().any(|b| b != b'0'));
    // Only digits, so that the one way to fail is a number beyond all use.
    Some(whole.parse().unwrap_or(u64::MAX).saturating_add(more))
}

/// Time from `now` until `moment`; nothing if that is over.
fn until(moment: SystemTime, now: SystemTime) -> Duration {
    moment.duration_since(now).unwrap_or_default()
}

/// The three forms of a date in HTTP.
fn http_date(text: &str) -> Option<SystemTime> {
    if text.len() > MAX_TEXT {
        return None;
    }
    if let Ok(zoned) = rfc2822::parse(text) {
        return Some(zoned.timestamp().into());
    }
    FORMS.iter().find_map(|form| utc(form, text))
}

fn utc(form: &str, text: &str) -> Option<SystemTime> {
    let civil: DateTime = strtime::parse(form, text).ok()?.to_datetime().ok()?;
    match civil.to_zoned(TimeZone::UTC) {
        Ok(zoned) => Some(zoned.timestamp().into()),
        // The very last days of the year 9999, which stand for "never".
        Err(_) => (civil.year() > 0).then(|| Timestamp::MAX.into()),
    }
}
