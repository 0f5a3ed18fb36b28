//! Refusals by status.

use std::time::Duration;

use grip_limits::{ClosedReason, response::ResponseKind};
use jiff::{SignedDuration, Timestamp, fmt::rfc2822::DateTimePrinter};

use super::{
    host::Host,
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
async fn refused(status: u16, headers: &[(&str, &str)], body: &str) -> Refusal {
    let host = Host::answering(status, headers, body).await;
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
async fn a_refusal_counts_as_a_failure_or_closes_the_host_by_what_it_says() {
    use ResponseKind::{AccessDenied, ClientError, NotModified, RateLimited, ServerError};
    let limited = RateLimited { secondary: false };
    let secondary = RateLimited { secondary: true };
    let named = Some((ClosedReason::RetryAfter, 120));
    let unspecified = Some((ClosedReason::Unspecified, 60));
    let after = [("retry-after", "120")];
    for (status, headers, kind, failures, closed) in [
        (304, &[][..], NotModified, 0, None),
        (400, &[], ClientError, 0, None),
        (401, &[], ClientError, 0, None),
        (403, &[], AccessDenied, 0, None),
        (404, &[], ClientError, 0, None),
        (410, &[], ClientError, 0, None),
        (429, &[], limited, 0, unspecified),
        (500, &[], ServerError, 1, None),
        (502, &[], ServerError, 1, None),
        (503, &[], ServerError, 1, None),
        (504, &[], ServerError, 1, None),
        (403, &after, secondary, 0, named),
        (429, &after, secondary, 0, named),
        (500, &after, ServerError, 1, named),
        (503, &after, ServerError, 1, named),
    ] {
        let refusal = refused(status, headers, "").await;
        assert_eq!(refusal.kind, kind, "{status}");
        assert_eq!(refusal.failures(), failures, "{status}");
        assert_eq!(refusal.closed(), closed, "{status} {headers:?}");
        let retry_after = refusal.retry_after.map(|wait| wait.as_secs());
        assert_eq!(retry_after, closed.map(|(_, secs)| secs), "{status}");
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
