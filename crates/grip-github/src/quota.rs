//! Budgets as responses tell them, and the kinds of calls that have one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header::DATE};

/// Longest window that is believed.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The kinds of calls that have budgets of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    Core,
    Search,
    CodeSearch,
    /// All others together; none is used here.
    Other,
    /// Paid in points: a query costs one, and more where it asks for many things.
    GraphQl,
}

/// A budget as a response tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// The end of the window by the host's clock, in seconds since 1970.
    pub(crate) reset: u64,
    /// How long that is from now.
    pub(crate) reset_in: Duration,
    pub(crate) resource: Option<Resource>,
}

impl Resource {
    pub(crate) const ALL: [Self; 5] = [
        Self::Core,
        Self::Search,
        Self::CodeSearch,
        Self::Other,
        Self::GraphQl,
    ];

    /// The budget that a call of this path, below the API's base, is paid from.
    pub(crate) fn of(path: &str) -> Self {
        let mut parts = path.trim_start_matches('/').split('/');
        match (parts.next(), parts.next()) {
            (Some("search"), Some("code")) => Self::CodeSearch,
            (Some("search"), _) => Self::Search,
            (Some("graphql"), _) => Self::GraphQl,
            _ => Self::Core,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Search => "search",
            Self::CodeSearch => "code_search",
            Self::GraphQl => "graphql",
            Self::Other => "other",
        }
    }

    fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|known| known.name() == name);
        found.unwrap_or(Self::Other)
    }
}

/// Reads the budget; none where the host keeps none, or writes nonsense.
pub(crate) fn read(headers: &HeaderMap, now: SystemTime) -> Option<Quota> {
    let number = |name: &str| text(headers, name)?.parse::<u64>().ok();
    let small = |name: &str| number(name).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let limit = small("x-ratelimit-limit")?;
    let remaining = small("x-ratelimit-remaining")?.min(limit);
    let reset = number("x-ratelimit-reset")?;
    // By the host's own clock, where it tells the time: ours need not be right.
    let now = date(headers).unwrap_or(now);
    let moment = UNIX_EPOCH.checked_add(Duration::from_secs(reset));
    let reset_in = moment.map_or(LONGEST, |end| end.duration_since(now).unwrap_or_default());
    Some(Quota {
        limit,
        remaining,
        reset,
        reset_in: reset_in.min(LONGEST),
        resource: text(headers, "x-ratelimit-resource").map(Resource::named),
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn date(headers: &HeaderMap) -> Option<SystemTime> {
    let date = text(headers, DATE.as_str()).filter(|date| date.len() < 64)?;
    let zoned = jiff::fmt::rfc2822::parse(date).ok()?;
    Some(zoned.timestamp().into())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const NOW: u64 = 1_763_254_800;

    fn quota(pairs: &[(&'static str, &str)]) -> Option<Quota> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.insert(HeaderName::from_static(name), value);
        }
        read(&headers, UNIX_EPOCH + Duration::from_secs(NOW))
    }

    fn plain(limit: &str, remaining: &str, reset: &str) -> Option<Quota> {
        quota(&[
            ("x-ratelimit-limit", limit),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", reset),
        ])
    }

    #[test]
    fn a_budget_is_read_whole_or_not_at_all() {
        let reset = (NOW + 60).to_string();
        let read = plain("5000", "4999", &reset).unwrap();
        assert_eq!(
            (read.limit, read.remaining, read.resource),
            (5000, 4999, None)
        );
        assert_eq!(read.reset_in.as_secs(), 60);
        for (limit, remaining, reset) in [
            ("", "1", "2"),
            ("x", "1", "2"),
            ("5", "-1", "2"),
            ("5", "1", "soon"),
        ] {
            assert_eq!(plain(limit, remaining, reset), None);
        }
        assert_eq!(quota(&[("x-ratelimit-remaining", "0")]), None);
    }

    #[test]
    fn nonsense_is_cut_to_what_can_be() {
        let read = plain("10", "99999999999", &u64::MAX.to_string()).unwrap();
        assert_eq!((read.remaining, read.reset_in), (10, LONGEST));
        assert_eq!(plain("10", "0", "1").unwrap().reset_in, Duration::ZERO);
    }

    #[test]
    fn the_end_of_a_window_is_told_by_the_hosts_clock() {
        let reset = (NOW + 3_600).to_string();
        let read = quota(&[
            ("x-ratelimit-limit", "60"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", &reset),
            ("date", "Sun, 16 Nov 2025 01:50:00 GMT"),
        ]);
        assert_eq!(read.unwrap().reset_in.as_secs(), 600);
    }

    #[test]
    fn every_kind_of_call_has_its_budget() {
        for (path, resource) in [
            ("repos/a/b", Resource::Core),
            ("/search/code", Resource::CodeSearch),
            ("search/issues", Resource::Search),
            ("graphql", Resource::GraphQl),
        ] {
            assert_eq!(Resource::of(path), resource, "{path}");
        }
        assert_eq!(Resource::named("core"), Resource::Core);
        assert_eq!(Resource::named("dependency_snapshots"), Resource::Other);
    }
}
