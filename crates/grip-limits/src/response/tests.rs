use http::{HeaderName, HeaderValue};
use std::time::UNIX_EPOCH;

use super::*;

/// 16 November 2025, 01:00:00 UTC.
const NOW: u64 = 1_763_254_800;

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        (HeaderName::from_static(name), value)
    });
    let mut headers = HeaderMap::new();
    pairs.for_each(|(name, value)| {
        headers.append(name, value);
    });
    headers
}

fn answer(status: u16, pairs: &[(&'static str, &str)], body: &str) -> Reading {
    let status = StatusCode::from_u16(status).unwrap();
    read(status, &headers(pairs), body.as_bytes(), now())
}

/// The advised wait in seconds.
fn wait(status: u16, pairs: &[(&'static str, &str)]) -> Option<u64> {
    let advice = answer(status, pairs, "").advice;
    advice.map(|advice| advice.wait.as_secs())
}

const LIMITED: ResponseKind = ResponseKind::RateLimited { secondary: false };
const SECONDARY: ResponseKind = ResponseKind::RateLimited { secondary: true };

#[test]
fn each_response_has_its_kind_verdict_and_advice() {
    use ResponseKind::{AccessDenied, ClientError, Fine, NotModified, ServerError};
    use Verdict::{Failure, Neutral, Success};
    let soon = (NOW + 600).to_string();
    let spent = [
        ("x-ratelimit-limit", "60"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", soon.as_str()),
    ];
    let left = [("x-ratelimit-remaining", "12"), ("x-ratelimit-reset", "99")];
    let retry = [("retry-after", "60"), ("x-ratelimit-remaining", "4999")];
    let unspecified = Some((60, Why::Unspecified));
    let after = Some((60, Why::RetryAfter));
    let limit = Some((605, Why::RateLimit));
    type Case<'a> = (
        &'a [u16],
        &'a [(&'static str, &'a str)],
        &'a str,
        ResponseKind,
        Verdict,
        Option<(u64, Why)>,
    );
    let exceeded = "API Rate Limit exceeded for user";
    let second = "You have exceeded a secondary rate limit.";
    let denied = "Resource not accessible";
    let cases: &[Case<'_>] = &[
        (&[200, 206, 301, 302], &[], exceeded, Fine, Success, None),
        (&[304], &[], "", NotModified, Success, None),
        (&[400, 401, 404], &[], exceeded, ClientError, Neutral, None),
        (&[410, 422], &[], second, ClientError, Neutral, None),
        (&[500, 502, 503, 504], &[], "", ServerError, Failure, None),
        (&[429], &[], "", LIMITED, Neutral, unspecified),
        (&[403, 429], &retry, "", SECONDARY, Neutral, after),
        (&[403, 429], &spent, "", LIMITED, Neutral, limit),
        (&[403], &[], exceeded, LIMITED, Neutral, unspecified),
        (&[403], &[], second, SECONDARY, Neutral, unspecified),
        (&[403], &[], denied, AccessDenied, Neutral, None),
        (&[403], &left, "", AccessDenied, Neutral, None),
        // A success that used up the limit closes the host, too.
        (&[200], &spent, "", Fine, Success, limit),
        // Beside a success, a time to wait means nothing.
        (&[200], &retry, "", Fine, Success, None),
        (&[304], &retry, "", NotModified, Success, None),
        (&[302], &retry, "", Fine, Success, after),
        (&[503], &retry, "", ServerError, Failure, after),
    ];
    for (statuses, pairs, body, kind, verdict, advice) in cases {
        for status in *statuses {
            let reading = answer(*status, pairs, body);
            assert_eq!(
                (reading.kind, reading.verdict),
                (*kind, *verdict),
                "{status} {pairs:?}"
            );
            let read = reading
                .advice
                .map(|advice| (advice.wait.as_secs(), advice.why));
            assert_eq!(read, *advice, "{status} {pairs:?} {body}");
        }
    }
}

#[test]
fn the_words_of_a_rate_limit_are_looked_for_at_the_start_only() {
    let late = format!("{}rate limit", " ".repeat(BODY_LOOK));
    assert_eq!(answer(403, &[], &late).kind, ResponseKind::AccessDenied);
    let early = format!("{}rate limit", " ".repeat(BODY_LOOK - 10));
    assert_eq!(answer(403, &[], &early).kind, LIMITED);
}

#[test]
fn retry_after_is_read_in_seconds() {
    for (text, secs) in [
        ("0", None),
        ("1", Some(1)),
        (" 120 ", Some(120)),
        ("1.2", Some(2)),
    ] {
        assert_eq!(wait(503, &[("retry-after", text)]), secs, "{text:?}");
    }
}

#[test]
fn retry_after_is_read_as_a_date_in_all_three_forms() {
    for date in [
        "Sun, 16 Nov 2025 01:02:00 GMT",
        "Sunday, 16-Nov-25 01:02:00 GMT",
        "Sun Nov 16 01:02:00 2025",
    ] {
        assert_eq!(wait(503, &[("retry-after", date)]), Some(120), "{date}");
        assert_eq!(wait(429, &[("retry-after", date)]), Some(120), "{date}");
    }
    let past = "Sun, 16 Nov 2025 00:59:00 GMT";
    assert_eq!(wait(503, &[("retry-after", past)]), None);
}

#[test]
fn a_limit_with_something_left_is_no_advice() {
    for pairs in [
        [("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "50")],
        [("ratelimit-remaining", "5"), ("ratelimit-reset", "50")],
        [
            ("ratelimit", "limit=100, remaining=50, reset=50"),
            ("date", ""),
        ],
        [("ratelimit", "\"default\";r=50;t=30"), ("date", "")],
        [("ratelimit-policy", "\"default\";q=100;w=10"), ("date", "")],
    ] {
        assert_eq!(wait(200, &pairs), None, "{pairs:?}");
    }
}

#[test]
fn the_reset_of_a_limit_is_a_span_or_a_moment() {
    let seconds = (NOW + 100).to_string();
    let millis = ((NOW + 100) * 1_000).to_string();
    let fraction = format!("{}.500", NOW + 99);
    let cases = [
        ("100", 100),
        (seconds.as_str(), 105),
        (millis.as_str(), 105),
        (fraction.as_str(), 105),
        ("Sun, 16 Nov 2025 01:01:40 GMT", 105),
    ];
    for (remaining, reset) in rate_limit::PAIRS {
        for (text, secs) in cases {
            let pairs = [(remaining, "0"), (reset, text)];
            assert_eq!(wait(200, &pairs), Some(secs), "{reset}: {text}");
        }
    }
}

#[test]
fn a_reset_that_is_now_or_over_still_gives_the_host_a_moment() {
    let over = (NOW - 1_000).to_string();
    for (text, secs) in [("0", 1), (over.as_str(), 5)] {
        let pairs = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", text)];
        assert_eq!(wait(200, &pairs), Some(secs), "{text}");
    }
}

#[test]
fn both_drafts_of_the_single_field_are_read() {
    for (text, secs) in [
        ("limit=100, remaining=0, reset=50", 50),
        ("remaining=0,reset=50", 50),
        ("limit=10, remaining=0", 60),
        ("\"default\";r=0;t=30", 30),
        ("\"burst\";r=0;t=5, \"day\";r=0;t=3600", 3_600),
        ("\"burst\";r=0;t=5, \"day\";r=900;t=3600", 5),
        ("\"a,b\" ; r=0 ; t=7", 7),
        ("default;r=0", 60),
    ] {
        assert_eq!(wait(200, &[("ratelimit", text)]), Some(secs), "{text}");
    }
}

#[test]
fn the_longer_of_two_waits_is_advised() {
    let pairs = [
        ("retry-after", "5"),
        ("ratelimit-remaining", "0"),
        ("ratelimit-reset", "90"),
    ];
    assert_eq!(wait(429, &pairs), Some(90));
    let pairs = [("retry-after", "5"), ("retry-after", "50")];
    assert_eq!(wait(429, &pairs), Some(50));
}

#[test]
fn nobody_makes_us_wait_longer_than_a_day() {
    let day = Advice::LONGEST.as_secs();
    let huge = "9".repeat(60);
    let most = u64::MAX.to_string();
    let texts = [huge.as_str(), most.as_str(), "86401", "999999999"];
    for text in texts {
        assert_eq!(wait(503, &[("retry-after", text)]), Some(day), "{text}");
        let pairs = [("ratelimit-remaining", "0"), ("ratelimit-reset", text)];
        assert_eq!(wait(200, &pairs), Some(day), "{text}");
        let listed = format!("\"x\";r=0;t={text}");
        assert_eq!(wait(200, &[("ratelimit", &listed)]), Some(day), "{text}");
    }
    let date = "Fri, 31 Dec 9999 23:59:59 GMT";
    assert_eq!(wait(503, &[("retry-after", date)]), Some(day));
}

#[test]
fn nonsense_in_headers_is_no_advice() {
    let long = "1".repeat(10_000) + "x";
    let short = [
        "",
        " ",
        "-1",
        "-",
        "+5",
        "1e9",
        "0x10",
        "NaN",
        "inf",
        "٣",
        "1 2",
        ".",
        "1.",
        ".5",
        "soon",
        "\u{1F4A3}",
        ",,,,",
        ";;;=;=",
    ];
    let dates = ["Sun, 99 Nov 2025 99:99:99 GMT", "Sun, 16 Nov 2025", &long];
    for text in short.into_iter().chain(dates) {
        assert_eq!(wait(503, &[("retry-after", text)]), None, "{text:?}");
        assert_eq!(
            wait(200, &[("x-ratelimit-remaining", text)]),
            None,
            "{text:?}"
        );
        assert_eq!(wait(200, &[("ratelimit", text)]), None, "{text:?}");
        // Spent, but nobody knows until when.
        let pairs = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", text)];
        let secs = wait(200, &pairs).unwrap();
        assert!([1, 60].contains(&secs), "{text:?}: {secs}");
    }
}

#[test]
fn a_nonsensical_retry_after_beside_a_429_still_makes_us_wait() {
    for text in ["soon", "-1", "0", "\u{1F4A3}"] {
        assert_eq!(wait(429, &[("retry-after", text)]), Some(60), "{text}");
    }
}

#[test]
fn thousands_of_header_values_are_not_all_read() {
    let mut many = vec![("retry-after", "1"); rate_limit::MAX_VALUES];
    many.extend(vec![("retry-after", "1000"); 5_000]);
    assert_eq!(wait(503, &many), Some(1));
}

proptest::proptest! {
    #[test]
    fn whatever_the_headers_hold_the_wait_is_bounded(
        status in 100_u16..600,
        values in proptest::collection::vec("[ -~]{0,40}", 6),
        body in proptest::collection::vec(0_u8..=255, 0..100),
    ) {
        let names = ["retry-after", "ratelimit", "ratelimit-remaining", "ratelimit-reset",
            "x-ratelimit-remaining", "x-ratelimit-reset"];
        let pairs: Vec<_> = names.into_iter().zip(values.iter().map(String::as_str)).collect();
        let status = StatusCode::from_u16(status).unwrap();
        let reading = read(status, &headers(&pairs), &body, now());
        if let Some(advice) = reading.advice {
            assert!(advice.wait <= Advice::LONGEST && !advice.wait.is_zero());
        }
    }
}
