//! Refusals by status.

use std::time::Duration;

use grip_limits::{ClosedReason, response::ResponseKind};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimePrinter};

use super::{
    host::{Host, PUBLIC, answer},
    support::{Client, client},
};
use crate::EgressError;

const HOST: &str = "127.0.0.2";

struct Refusal {
    client: Client,
    kind: ResponseKind,
    message: String,
    retry_after: Option<Duration>,
}

/// Asks a host once that refuses so.
async fn refused(status: u16, headers: &[(&str, &str)], body: &'static str) -> Refusal {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let host = Host::on(PUBLIC, move |_| {
        let headers: Vec<_> = headers
            .iter()
            .map(|(n, v)| (n.as_str(), v.as_str()))
            .collect();
        answer(status, &headers, body)
    })
    .await;
    let client = client();
    let error = client.fail(host.url("/")).await;
    let EgressError::Status {
        status: seen,
        message,
        kind,
        retry_after,
    } = error
    else {
        panic!("{status}: {error:?}");
    };
    assert_eq!(seen.as_u16(), status);
    let (in_flight, started, _) = client.counts(HOST);
    assert_eq!((in_flight, started), (0, 1));
    Refusal {
        client,
        kind,
        message,
        retry_after,
    }
}

impl Refusal {
    fn failures(&self) -> u64 {
        self.client.counts(HOST).2
    }

    /// Why the host is closed, and for how many seconds.
    fn closed(&self) -> Option<(ClosedReason, u64)> {
        let closed = self.client.status(HOST)?.closed?;
        Some((closed.why, closed.for_ms.div_ceil(1000)))
    }
}

#[tokio::test]
async fn refusals_that_only_mean_this_request_close_nothing() {
    for (status, expected) in [
        (400, ResponseKind::ClientError),
        (401, ResponseKind::ClientError),
        (403, ResponseKind::AccessDenied),
        (404, ResponseKind::ClientError),
        (410, ResponseKind::ClientError),
    ] {
        let refusal = refused(status, &[], "").await;
        assert_eq!(refusal.kind, expected, "{status}");
        assert_eq!(
            (refusal.failures(), refusal.closed()),
            (0, None),
            "{status}"
        );
        assert_eq!(refusal.retry_after, None);
    }
}

#[tokio::test]
async fn what_is_not_modified_is_no_reply_and_no_failure() {
    let refusal = refused(304, &[], "").await;
    assert_eq!(
        (refusal.kind, refusal.failures()),
        (ResponseKind::NotModified, 0)
    );
}

#[tokio::test]
async fn a_failing_host_is_counted_as_one() {
    for status in [500, 502, 503, 504] {
        let refusal = refused(status, &[], "").await;
        assert_eq!(refusal.kind, ResponseKind::ServerError, "{status}");
        assert_eq!(
            (refusal.failures(), refusal.closed()),
            (1, None),
            "{status}"
        );
    }
}

#[tokio::test]
async fn retry_after_in_seconds_closes_the_host() {
    for (status, expected, failures) in [
        (429, ResponseKind::RateLimited { secondary: true }, 0),
        (403, ResponseKind::RateLimited { secondary: true }, 0),
        (503, ResponseKind::ServerError, 1),
        (500, ResponseKind::ServerError, 1),
    ] {
        let refusal = refused(status, &[("retry-after", "120")], "").await;
        assert_eq!(
            (refusal.kind, refusal.failures()),
            (expected, failures),
            "{status}"
        );
        assert_eq!(
            refusal.retry_after,
            Some(Duration::from_secs(120)),
            "{status}"
        );
        assert_eq!(
            refusal.closed(),
            Some((ClosedReason::RetryAfter, 120)),
            "{status}"
        );
    }
}

#[tokio::test]
async fn retry_after_as_a_date_closes_the_host() {
    let then = Timestamp::now() + SignedDuration::from_secs(600);
    let date = DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&then)
        .unwrap();
    let refusal = refused(429, &[("retry-after", &date)], "").await;
    let wait = refusal.retry_after.unwrap().as_secs();
    assert!((590..=610).contains(&wait), "{wait}");
    let (why, _) = refusal.closed().unwrap();
    assert_eq!((why, refusal.failures()), (ClosedReason::RetryAfter, 0));
}

#[tokio::test]
async fn too_many_requests_without_a_time_closes_the_host_for_a_while() {
    let refusal = refused(429, &[], "").await;
    assert_eq!(refusal.kind, ResponseKind::RateLimited { secondary: false });
    let (why, _) = refusal.closed().unwrap();
    assert_eq!((why, refusal.failures()), (ClosedReason::Unspecified, 0));
}

#[tokio::test]
async fn the_body_tells_a_rate_limit_from_a_closed_door() {
    let body = "You have exceeded a secondary rate limit.";
    let refusal = refused(403, &[("content-type", "text/plain")], body).await;
    assert_eq!(refusal.kind, ResponseKind::RateLimited { secondary: true });
    assert_eq!(refusal.message, body);
    assert!(refusal.closed().is_some());
}

#[tokio::test]
async fn what_a_host_says_is_told_as_plain_text() {
    let refusal = refused(
        404,
        &[("content-type", "text/plain")],
        "no\x1b[31m\n such\u{202e} thing",
    )
    .await;
    assert_eq!(refusal.message, "no [31m such thing");
    let refusal = refused(404, &[("content-type", "text/html")], "<script>x</script>").await;
    assert_eq!(refusal.message, "");
}

#[tokio::test]
async fn a_closed_host_is_not_asked_again() {
    let refusal = refused(429, &[("retry-after", "60")], "").await;
    let domain = grip_types::Domain::parse(HOST).unwrap();
    let throttle = refusal.client.egress.throttle();
    let refused = throttle
        .acquire(&domain, grip_limits::Lane::Git)
        .await
        .unwrap_err();
    assert_eq!(refused.reason, grip_limits::Reason::Advised);
}
