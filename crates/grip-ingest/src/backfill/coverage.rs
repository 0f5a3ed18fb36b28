//! Time ranges without gaps, from the files that were read whole.

use jiff::{
    civil::{Date, Time},
    tz::TimeZone,
};

/// From one moment to another, in milliseconds since 1970.
pub(super) type Span = (i64, i64);

const HOUR_MS: i64 = 60 * 60 * 1_000;
/// Files of neighbouring hours meet; timestamps are in whole seconds.
const SAME_MOMENT_MS: i64 = 1_000;
/// Events of an hour's file may lie so far outside of it.
const STRAY_MS: i64 = 10 * 60 * 1_000;

/// The time that a file covers: from its first to its last event, and where it is named after an
/// hour and holds that hour, all of the hour.
pub(super) fn of(name: &str, first: i64, last: i64) -> Span {
    match hour(name) {
        Some(hour) if first >= hour - STRAY_MS && last <= hour + HOUR_MS + STRAY_MS => {
            (first.min(hour), last.max(hour + HOUR_MS))
        }
        _ => (first, last),
    }
}

/// The beginning of the hour that a file is named after: `2015-01-01-15.json.gz`.
fn hour(name: &str) -> Option<i64> {
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    let stem = stem.strip_suffix(".json")?;
    let (day, hour) = stem.rsplit_once('-')?;
    let is_number = hour.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || !(1..=2).contains(&hour.len()) {
        return None;
    }
    let day: Date = day.parse().ok()?;
    let hour = Time::new(hour.parse().ok()?, 0, 0, 0).ok()?;
    let at = day.to_datetime(hour).to_zoned(TimeZone::UTC).ok()?;
    Some(at.timestamp().as_millisecond())
}

/// The time without holes around `span`, with what other files cover.
pub(super) fn around(span: Span, mut others: Vec<Span>) -> Span {
    others.sort_unstable();
    let (mut from, mut to) = span;
    // Forwards over those that begin before it ends, then backwards likewise.
    for (first, last) in &others {
        if *first <= to + SAME_MOMENT_MS && *last >= from - SAME_MOMENT_MS {
            to = to.max(*last);
        }
    }
    others.sort_unstable_by_key(|(_, last)| std::cmp::Reverse(*last));
    for (first, last) in &others {
        if *last >= from - SAME_MOMENT_MS && *first <= to + SAME_MOMENT_MS {
            from = from.min(*first);
        }
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_that_is_named_after_an_hour_covers_it() {
        // 2015-01-01 15:00 UTC
        let hour = 1_420_124_400_000;
        let whole = (hour, hour + HOUR_MS);
        for name in ["2015-01-01-15.json.gz", "2015-01-01-15.json"] {
            assert_eq!(of(name, hour + 1_000, hour + 3_599_000), whole);
        }
        assert_eq!(
            of("2015-01-01-15.json", hour - 5, hour + 9),
            (hour - 5, whole.1)
        );
        let words = "2015-01-01-24.json.gz 2015-01-01.json.gz 2015-01-01-1x.json 2015-13-01-1.json \
            2015-01-01-99.json events.json";
        for name in words.split(' ').chain([""]) {
            assert_eq!(of(name, hour + 1, hour + 2), (hour + 1, hour + 2), "{name}");
        }
        let day = 24 * HOUR_MS;
        let other = (hour + day, hour + day + 1);
        assert_eq!(
            of("2015-01-01-15.json", other.0, other.1),
            other,
            "it holds another day"
        );
        // An hour of one digit.
        assert_eq!(
            of(
                "2015-01-01-5.json",
                hour - 10 * HOUR_MS,
                hour - 10 * HOUR_MS
            )
            .1,
            hour - 9 * HOUR_MS
        );
    }

    #[test]
    fn files_that_meet_cover_one_time() {
        let others = vec![(0, 100_000), (101_000, 200_000), (250_000, 300_000)];
        assert_eq!(around((200_500, 210_000), others.clone()), (0, 210_000));
        assert_eq!(around((200_000, 249_500), others.clone()), (0, 300_000));
        assert_eq!(around((220_000, 230_000), others), (220_000, 230_000));
    }

    proptest! {
        #[test]
        fn no_name_makes_it_fall_over(name: String, day in "[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{1,3}") {
            of(&name, 0, 1);
            of(&format!("{day}.json"), 0, 1);
        }

        #[test]
        fn every_moment_of_what_is_covered_is_in_a_file(
            spans in proptest::collection::vec((0_i64..200, 0_i64..20), 1..20),
        ) {
            let spans: Vec<_> = spans
                .into_iter()
                .map(|(from, length)| (from * 10_000, (from + length) * 10_000))
                .collect();
            let (from, to) = around(spans[0], spans.clone());
            prop_assert!(from <= spans[0].0 && to >= spans[0].1);
            let covered = |at: i64| spans.iter().any(|(from, to)| (*from..=*to).contains(&at));
            prop_assert!((from..=to).step_by(5_000).all(covered));
            // And it is as much as there is.
            prop_assert!(!covered(from - 5_000) && !covered(to + 5_000));
        }
    }
}
