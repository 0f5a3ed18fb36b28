//! Query parameters of the feed and of its changes.

use grip_index::FeedQuery;

use crate::{
    error::WebError,
    query::{limit_or, query_text, wrong},
};

/// Longest module path that is looked for.
const MAX_PATH: usize = 1024;

/// Reads `since`, `limit`, `clock` and `path`. Others are ignored, as pkgsite's `include=all`.
pub(super) fn feed(query: Option<&str>) -> Result<FeedQuery, WebError> {
    let since_ns = match query_text(query, "since")? {
        None => FeedQuery::default().since_ns,
        Some(text) => FeedQuery::parse_timestamp(&text).map_err(|why| wrong("since", why))?,
    };
    let clock = match query_text(query, "clock")? {
        None => Default::default(),
        Some(text) => text.parse().map_err(|why| wrong("clock", why))?,
    };
    Ok(FeedQuery {
        since_ns,
        limit: limit(query)?,
        clock,
        path: path(query)?,
        ..FeedQuery::default()
    })
}

/// Reads `cursor` and `limit`.
pub(super) fn changes(query: Option<&str>) -> Result<(i64, usize), WebError> {
    let cursor = match query_text(query, "cursor")? {
        None => 0,
        Some(text) => text
            .parse()
            .ok()
            .filter(|cursor| *cursor >= 0)
            .ok_or_else(|| {
                let why = "it is the Cursor of a line before, such as 1554923332997264001";
                wrong("cursor", why)
            })?,
    };
    Ok((cursor, limit(query)?))
}

fn limit(query: Option<&str>) -> Result<usize, WebError> {
    limit_or(query, FeedQuery::MOST, FeedQuery::MOST)
}

fn path(query: Option<&str>) -> Result<Option<String>, WebError> {
    let path = query_text(query, "path")?;
    let is_path = |path: &String| path.len() <= MAX_PATH && !path.contains(char::is_control);
    match path {
        Some(path) if !is_path(&path) => {
            let why = "the path of a module or the beginning of one, such as example.com/tools";
            Err(wrong("path", why))
        }
        path => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use grip_index::Clock;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_parameters_it_is_all_from_the_beginning() {
        for query in [
            None,
            Some(""),
            Some("since=&limit=&clock="),
            Some("include=all"),
        ] {
            assert_eq!(feed(query).unwrap(), FeedQuery::default(), "{query:?}");
        }
        assert_eq!(changes(None).unwrap(), (0, 2000));
    }

    #[test]
    fn a_moment_may_have_any_offset_escaped_or_not() {
        let ns = 1_554_923_332_997_264_001;
        for text in [
            "2019-04-10T19:08:52.997264001Z",
            "2019-04-10T19%3A08%3A52.997264001Z",
            "2019-04-10T21:08:52.997264001+02:00",
            "2019-04-10T21:08:52.997264001%2B02:00",
        ] {
            let query = format!("limit=7&since={text}&clock=created");
            let found = feed(Some(&query)).unwrap();
            assert_eq!((found.since_ns, found.limit), (ns, 7), "{text}");
            assert_eq!(found.clock, Clock::Created);
        }
    }

    #[test]
    fn a_wrong_parameter_is_named_with_an_example_of_a_right_one() {
        for (query, name, example) in [
            ("since=yesterday", "since", "2019-04-10T19:08:52"),
            ("since=2019-04-10", "since", "2019-04-10T19:08:52"),
            ("since=%00", "since", "2019-04-10T19:08:52"),
            ("limit=0", "limit", "from 1 to 2000"),
            ("limit=2001", "limit", "from 1 to 2000"),
            ("limit=-1", "limit", "from 1 to 2000"),
            ("limit=99999999999999999999", "limit", "from 1 to 2000"),
            ("clock=mine", "clock", "`seen` or `created`"),
            ("path=a%0Ab", "path", "example.com/tools"),
        ] {
            let sentence = feed(Some(query)).unwrap_err().caller();
            assert!(sentence.contains(name), "{sentence}");
            assert!(sentence.contains(example), "{sentence}");
        }
        for query in ["cursor=x", "cursor=-1", "cursor=1.5"] {
            let sentence = changes(Some(query)).unwrap_err().caller();
            assert!(sentence.contains("1554923332997264001"), "{sentence}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_read_without_panic(query in "[ -~é]{0,120}") {
            let _ = (feed(Some(&query)), changes(Some(&query)));
            let since = format!("since={query}&limit={query}&clock={query}&path={query}");
            let _ = (feed(Some(&since)), changes(Some(&since)));
        }
    }
}
