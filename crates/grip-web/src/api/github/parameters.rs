//! Query parameters of pushes and gaps.

use grip_ingest::{EventCursor, EventQuery};

use super::PushQuery;
use crate::{
    error::WebError,
    query::{flag, limit_or, query_text, query_value, wrong},
};

/// Pushes and gaps of one answer where nobody asks for more, and the most.
const LISTED: usize = 100;
const MOST: usize = 500;
/// Longest id of a push.
const MAX_ID: usize = 128;

/// Which pushes are asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EventParameters {
    pub(super) query: PushQuery,
    /// By number or by name.
    pub(super) repository: Option<String>,
    pub(super) actor: Option<String>,
    /// With the JSON of GitHub.
    pub(super) raw: bool,
}

/// Reads `repo`, `actor`, `since`, `cursor`, `limit` and `raw`.
pub(super) fn events(query: Option<&str>) -> Result<EventParameters, WebError> {
    let (repository, actor) = (query_text(query, "repo")?, query_text(query, "actor")?);
    if repository.is_some() && actor.is_some() {
        let why = "repo and actor cannot be asked for together: choose one of them";
        return Err(WebError::Malformed(why.into()));
    }
    let after = query_text(query, "cursor")?.map(|text| {
        let why = "it is what `next` of the page before said";
        parse_cursor(&text).ok_or_else(|| wrong("cursor", why))
    });
    let push_query = PushQuery {
        events: EventQuery {
            after: after.transpose()?,
            limit: limit_or(query, LISTED, MOST)?,
            ..EventQuery::default()
        },
        since_ms: moment(query, "since")?,
        is_operator: false,
    };
    Ok(EventParameters {
        query: push_query,
        repository,
        actor,
        raw: raw(query)?,
    })
}

/// Reads `raw`: whether the JSON of GitHub is shown.
pub(super) fn raw(query: Option<&str>) -> Result<bool, WebError> {
    Ok(flag(query, "raw")?.unwrap_or(false))
}

/// Reads `open`, `after` and `limit`.
pub(super) fn gaps(query: Option<&str>) -> Result<(bool, i64, usize), WebError> {
    let after = match query_value(query, "after") {
        None | Some("") => 0,
        Some(text) => super::number(text)
            .ok_or_else(|| wrong("after", "it is what `next` of the page before said"))?,
    };
    let only_open = flag(query, "open")?.unwrap_or(false);
    Ok((only_open, after, limit_or(query, LISTED, MOST)?))
}

/// Reads a moment, in milliseconds since 1970.
pub(super) fn moment(query: Option<&str>, name: &str) -> Result<Option<i64>, WebError> {
    let Some(text) = query_text(query, name)? else {
        return Ok(None);
    };
    if let Some(ms) = super::number(&text) {
        return Ok(Some(ms));
    }
    let moment: Result<jiff::Timestamp, _> = text.parse();
    let why = "it is a moment such as 2026-01-31T12:00:00Z, or its milliseconds since 1970";
    let moment = moment.map_err(|_| wrong(name, why))?;
    Ok(Some(moment.as_millisecond()))
}

/// A position in the list as one word.
pub(super) fn format_cursor(cursor: &EventCursor) -> String {
    format!("{}-{}", cursor.at, cursor.id.replace(' ', "~"))
}

fn parse_cursor(text: &str) -> Option<EventCursor> {
    // The first character may be the sign of a moment before 1970.
    let dash = 1 + text.get(1..)?.find('-')?;
    let (at, id) = (&text[..dash], &text[dash + 1..]);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'~';
    if !(1..=MAX_ID).contains(&id.len()) || !id.bytes().all(is_plain) {
        return None;
    }
    Some(EventCursor {
        at: at.parse().ok()?,
        id: id.replace('~', " "),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wrong_parameter_is_named_with_what_would_be_right() {
        for (query, sentence) in [
            ("limit=0", "limit is wrong: it is a number from 1 to 500"),
            ("limit=501", "from 1 to 500"),
            ("limit=-1", "from 1 to 500"),
            ("limit=99999999999999999999999", "from 1 to 500"),
            ("since=yesterday", "such as 2026-01-31T12:00:00Z"),
            ("cursor=x", "cursor is wrong"),
            ("cursor=1-", "cursor is wrong"),
            ("cursor=--1-7", "cursor is wrong"),
            ("cursor=é-7", "cursor is wrong"),
            ("cursor=1-%00", "cursor is wrong"),
            ("raw=perhaps", "true or false"),
            ("repo=a/b&actor=c", "choose one"),
            ("repo=%ff", "no UTF-8"),
        ] {
            let found = events(Some(query)).unwrap_err().caller();
            assert!(found.contains(sentence), "{query}: {found}");
        }
        assert!(gaps(Some("after=x")).is_err());
        assert_eq!(gaps(None).unwrap(), (false, 0, 100));
        assert_eq!(gaps(Some("open&after=7&limit=2")).unwrap(), (true, 7, 2));
    }

    #[test]
    fn a_moment_is_written_in_words_or_in_milliseconds() {
        let of = |text: &str| moment(Some(&format!("since={text}")), "since").unwrap();
        assert_eq!(of("1970-01-01T00:00:01Z"), Some(1_000));
        assert_eq!(of("1970-01-01T02:00:01%2B02:00"), Some(1_000));
        assert_eq!(of("1000"), Some(1_000));
        assert_eq!(of(""), None);
    }

    proptest! {
        #[test]
        fn a_cursor_is_found_again(at in any::<i64>(), id in "(delivery )?[a-zA-Z0-9-]{1,64}") {
            let cursor = EventCursor { at, id };
            prop_assert_eq!(parse_cursor(&format_cursor(&cursor)), Some(cursor));
        }

        #[test]
        fn any_query_is_read_without_panic(text in "[ -~é]{0,80}") {
            for name in ["repo", "actor", "since", "cursor", "limit", "raw", "open", "after"] {
                let query = format!("{name}={text}");
                let _ = (events(Some(&query)), gaps(Some(&query)));
            }
        }
    }
}
