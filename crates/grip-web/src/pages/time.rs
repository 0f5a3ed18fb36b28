//! Times for people.

use std::fmt;

use askama::filters::HtmlSafe;

use crate::metrics::unix_now_ms;

/// A time as an element that programs can read too.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    unix_ms: i64,
    text: String,
    /// Told by its distance, which a script keeps right.
    is_relative: bool,
}

/// Digits, letters and punctuation of times only.
impl HtmlSafe for Moment {}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(time) = jiff::Timestamp::from_millisecond(self.unix_ms) else {
            return f.write_str(&self.text);
        };
        let (machine, human) = (time.strftime("%Y-%m-%dT%H:%M:%SZ"), when_ms(self.unix_ms));
        let (text, ago) = (&self.text, if self.is_relative { " data-ago" } else { "" });
        write!(
            f,
            "<time datetime=\"{machine}\" title=\"{human}\"{ago}>{text}</time>"
        )
    }
}

/// The moment as a page shows it: the time in UTC.
pub(crate) fn moment(unix_seconds: &u64) -> Moment {
    let unix_ms = i64::try_from(*unix_seconds).unwrap_or(i64::MAX);
    Moment {
        unix_ms: unix_ms.saturating_mul(1000),
        text: when(*unix_seconds),
        is_relative: false,
    }
}

/// The same for milliseconds, as deadlines are kept.
pub(crate) fn moment_ms(unix_ms: &i64) -> Moment {
    Moment {
        unix_ms: *unix_ms,
        text: when_ms(*unix_ms),
        is_relative: false,
    }
}

/// A time for people, in UTC.
pub(crate) fn when(unix_seconds: u64) -> String {
    i64::try_from(unix_seconds)
        .ok()
        .and_then(|s| jiff::Timestamp::from_second(s).ok())
        .map_or_else(
            || "at an impossible time".to_owned(),
            |t| t.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        )
}

/// The same for milliseconds, as deadlines are kept.
pub(crate) fn when_ms(unix_ms: i64) -> String {
    when(u64::try_from(unix_ms / 1000).unwrap_or(0))
}

/// The moment that a page is made.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    unix_ms: i64,
    is_running: bool,
}

impl Now {
    pub(crate) fn new() -> Self {
        Self {
            unix_ms: unix_now_ms(),
            is_running: true,
        }
    }

    /// For what is sent only when it changes: moments are told by their date, and the script of the
    /// page tells their distance.
    pub(crate) fn stopped() -> Self {
        Self {
            is_running: false,
            ..Self::new()
        }
    }

    /// How far `unix_ms` is from this moment.
    pub(crate) fn distance(self, unix_ms: &i64) -> String {
        distance(*unix_ms, self.unix_ms)
    }

    /// The same as an element of a page.
    pub(crate) fn ago(self, unix_ms: &i64) -> Moment {
        Moment {
            unix_ms: *unix_ms,
            text: if self.is_running {
                self.distance(unix_ms)
            } else {
                when_ms(*unix_ms)
            },
            is_relative: true,
        }
    }

    pub(super) fn is_before(self, unix_ms: i64) -> bool {
        unix_ms > self.unix_ms
    }
}

/// How far a moment is from now, in the largest unit that says enough: `in 29 min`, `3 s ago`.
pub(super) fn distance(unix_ms: i64, now_ms: i64) -> String {
    let ahead = unix_ms.saturating_sub(now_ms);
    match span(ahead.unsigned_abs()) {
        None => "now".to_owned(),
        Some(span) if ahead > 0 => format!("in {span}"),
        Some(span) => format!("{span} ago"),
    }
}

pub(super) fn span(ms: u64) -> Option<String> {
    let seconds = ms / 1000;
    Some(match seconds {
        0 => return None,
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    })
}

/// `840 ms`, or a span.
pub(crate) fn took(ms: &u64) -> String {
    match *ms {
        ms @ 0..1000 => format!("{ms} ms"),
        ms @ 1000..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms => span(ms).unwrap_or_default(),
    }
}
