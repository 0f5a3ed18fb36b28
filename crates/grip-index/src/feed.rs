//! The feed's wire format and query parameters.

mod timestamp;

use std::{fmt, str::FromStr};

pub use self::timestamp::InvalidTimestamp;
use crate::{Entry, Reader};

/// What is asked of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedQuery {
    /// From when on, inclusive, in nanoseconds since 1970.
    pub since_ns: i64,
    /// How many at most, never more than [`FeedQuery::MOST`]; beyond it only what a follower needs to
    /// go on (see `unit_ns`).
    pub limit: usize,
    pub clock: Clock,
    /// Only this module and those below it.
    pub path: Option<String>,
    /// Whom the page is for.
    pub reader: Reader,
}

/// By which clock the feed is ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// When a version was first seen here, the oldest first. Who goes on with the latest timestamp
    /// he has seen misses nothing.
    #[default]
    Seen,
    /// When its tag was made, the newest first. What is tagged late has its place in the middle,
    /// so this order is no way to follow the feed.
    Created,
}

/// Why a text names no clock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the clock is `seen` or `created`")]
pub struct InvalidClock;

impl FeedQuery {
    /// The most entries that one page has.
    pub const MOST: usize = 2_000;

    /// The unit of time that `since` may have been rounded down to, by its zeros: a second, a
    /// millisecond, a microsecond or a nanosecond.
    ///
    /// A follower goes on with the last timestamp it has read. If it keeps fewer digits than we
    /// print, a page that ended within the unit would be the same page again for ever, so every page
    /// goes on to the first version after it.
    pub(crate) fn unit_ns(&self) -> i64 {
        let units = [1_000_000_000, 1_000_000, 1_000];
        let unit = units.into_iter().find(|unit| self.since_ns % unit == 0);
        unit.unwrap_or(1)
    }

    /// Parses an RFC 3339 timestamp, such as `2019-04-10T19:08:52.997264Z`.
    pub fn parse_timestamp(text: &str) -> Result<i64, InvalidTimestamp> {
        timestamp::parse(text)
    }
}

impl Default for FeedQuery {
    /// All of it, from the beginning.
    fn default() -> Self {
        Self {
            since_ns: 0,
            limit: Self::MOST,
            clock: Clock::default(),
            path: None,
            reader: Reader::default(),
        }
    }
}

impl FromStr for Clock {
    type Err = InvalidClock;

    fn from_str(text: &str) -> Result<Self, InvalidClock> {
        match text {
            "seen" => Ok(Self::Seen),
            "created" => Ok(Self::Created),
            _ => Err(InvalidClock),
        }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seen => "seen",
            Self::Created => "created",
        })
    }
}

/// A page of the feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub entries: Vec<Entry>,
    /// How far the feed had come when this was read; see [`crate::Index::stamp`].
    pub stamp_ns: i64,
}

impl Page {
    /// Writes a line of JSON per version: `Path`, `Version`, `Timestamp` (when it was first seen)
    /// and `Created` (the date of its tag).
    pub fn write_ndjson(&self, out: &mut Vec<u8>) {
        const LINE: usize = 200;
        out.reserve(self.entries.len() * LINE);
        for entry in &self.entries {
            out.extend_from_slice(b"{\"Path\":\"");
            write_text(out, &entry.path);
            out.extend_from_slice(b"\",\"Version\":\"");
            write_text(out, &entry.version);
            out.extend_from_slice(b"\",\"Timestamp\":\"");
            let (seconds, micros) = split(entry.first_seen_ns / 1_000, 1_000_000);
            timestamp::write(out, seconds, micros);
            out.extend_from_slice(b"\",\"Created\":\"");
            let (seconds, ms) = split(entry.created, 1_000);
            timestamp::write(out, seconds, ms * 1_000);
            out.extend_from_slice(b"\"}\n");
        }
    }
}

fn split(at: i64, second: i64) -> (i64, u32) {
    let rest = u32::try_from(at.rem_euclid(second));
    (
        at.div_euclid(second),
        rest.expect("a part of a second is small"),
    )
}

/// Paths and versions are plain by Go's rules; what is not is written as JSON would have it.
fn write_text(out: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let quoted = serde_json::to_string(text).expect("a text is always JSON");
    out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, first_seen_ns: i64, created: i64) -> String {
        let entry = Entry {
            path: path.into(),
            version: "v1.2.3".into(),
            first_seen_ns,
            created,
        };
        let mut out = Vec::new();
        let page = Page {
            entries: vec![entry],
            stamp_ns: 0,
        };
        page.write_ndjson(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_what_go_tools_read_with_the_date_of_the_tag_beside_it() {
        assert_eq!(
            page(
                "example.com/a",
                1_554_923_332_997_264_000,
                1_000_000_000_500
            ),
            "{\"Path\":\"example.com/a\",\"Version\":\"v1.2.3\",\
             \"Timestamp\":\"2019-04-10T19:08:52.997264Z\",\
             \"Created\":\"2001-09-09T01:46:40.500000Z\"}\n"
        );
    }

    #[test]
    fn a_text_that_is_not_plain_stays_json() {
        let line = page("a\"b\\c\n\u{1}é<", 1, 1);
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["Path"], "a\"b\\c\n\u{1}é<");
        assert_eq!(line.matches('\n').count(), 1);
    }
}
