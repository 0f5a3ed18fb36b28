//! Callers that want every answer, and keep the budget of their rate limit themselves.

use grip_limits::{ClosedReason, response::ResponseKind};
use grip_testkit::assert_matches;
use tokio::io::AsyncReadExt as _;

use super::{
    host::{Host, PUBLIC, moved},
    support::{Client, client},
};
use crate::{Reply, RequestPolicy};

const HOST: &str = "127.0.0.2";

fn every_answer() -> RequestPolicy {
    RequestPolicy {
        any_status: true,
        follow: false,
        heed_quota: false,
        ..RequestPolicy::default()
    }
}

/// Asks a host once that answers so; gives the reply and the start of its body.
async fn heard(status: u16, headers: &[(&str, &str)], body: &str) -> (Client, Reply, String) {
    let host = Host::answering(status, headers, body).await;
    let client = client();
    let sent = client.send_with(&every_answer(), host.url("/")).await;
    let mut reply = sent.unwrap();
    assert_eq!(reply.status.as_u16(), status);
    let mut start = String::new();
    reply.body.read_to_string(&mut start).await.unwrap();
    assert_eq!(client.counts(HOST).0, 0, "the permit is given back");
    (client, reply, start)
}

fn closed(client: &Client) -> Option<ClosedReason> {
    Some(client.status(HOST)?.closed?.why)
}

#[tokio::test]
async fn refusals_are_handed_back_with_headers_and_the_start_of_their_body() {
    let json = [("content-type", "application/json"), ("x-mark", "m")];
    for (status, expected) in [
        (401, ResponseKind::ClientError),
        (403, ResponseKind::AccessDenied),
        (404, ResponseKind::ClientError),
        (502, ResponseKind::ServerError),
    ] {
        let (client, reply, start) = heard(status, &json, r#"{"message":"no"}"#).await;
        assert_eq!(reply.headers["x-mark"], "m");
        assert_eq!(start, r#"{"message":"no"}"#);
        assert_eq!(reply.reading.kind, expected, "{status}");
        assert_eq!(closed(&client), None);
        let failures = u64::from(status == 502);
        assert_eq!(client.counts(HOST).2, failures, "{status}");
    }
    let (_, _, start) = heard(500, &[], &"x".repeat(100_000)).await;
    assert_eq!(start.len(), 8 * 1024);
}

#[tokio::test]
async fn what_is_not_modified_is_handed_back() {
    let (client, reply, start) = heard(304, &[("etag", "\"1\"")], "").await;
    assert_eq!(
        (reply.headers["etag"].to_str().unwrap(), start.as_str()),
        ("\"1\"", "")
    );
    assert_eq!(reply.reading.kind, ResponseKind::NotModified);
    assert_eq!(client.counts(HOST).2, 0);
}

#[tokio::test]
async fn redirects_are_handed_back_and_not_followed() {
    let (client, reply, _) = heard(301, &[("location", "/elsewhere")], "").await;
    assert_eq!(reply.headers["location"], "/elsewhere");
    assert_eq!(client.counts(HOST).1, 1);
    let host = Host::on(PUBLIC, |_| moved("/elsewhere")).await;
    let policy = RequestPolicy {
        follow: false,
        ..RequestPolicy::default()
    };
    let sent = client.send_with(&policy, host.url("/")).await;
    assert_matches!(sent, Err(crate::EgressError::Status { .. }));
}

#[tokio::test]
async fn a_spent_budget_of_the_callers_own_does_not_close_the_host() {
    let spent = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "90")];
    for (status, body) in [
        (200, "[]"),
        (403, "API rate limit exceeded"),
        (429, "API rate limit exceeded"),
        (404, ""),
    ] {
        let (client, reply, _) = heard(status, &spent, body).await;
        assert_eq!(closed(&client), None, "{status}");
        let limited = matches!(reply.reading.kind, ResponseKind::RateLimited { .. });
        assert_eq!(limited, matches!(status, 403 | 429), "{status}");
        assert_eq!(reply.reading.advice.unwrap().wait.as_secs(), 90);
    }
}

#[tokio::test]
async fn what_a_host_asks_of_everybody_is_heeded_on_all_terms() {
    let spent = [
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "900"),
        ("retry-after", "30"),
    ];
    let left = [("x-ratelimit-remaining", "9"), ("retry-after", "30")];
    let secondary = "You have exceeded a secondary rate limit";
    for (status, headers, body, why) in [
        (403, &spent[..], "", ClosedReason::RetryAfter),
        (403, &left[..], "", ClosedReason::RetryAfter),
        (429, &left[..], "", ClosedReason::RetryAfter),
        (503, &left[..], "", ClosedReason::RetryAfter),
        (403, &left[..1], secondary, ClosedReason::Unspecified),
        (429, &[], "", ClosedReason::Unspecified),
    ] {
        let (client, _, _) = heard(status, headers, body).await;
        assert_eq!(closed(&client), Some(why), "{status} {headers:?}");
    }
}
