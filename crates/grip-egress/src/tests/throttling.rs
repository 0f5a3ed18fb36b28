//! Permits: every hop pays at its own host.

use std::time::Duration;

use grip_limits::{ClosedReason, Limits, Reason};
use grip_testkit::{assert_matches, until_true, within};
use tokio::io::AsyncReadExt as _;

use super::{
    host::{DEAD, Host, OTHER_PUBLIC, PUBLIC, answer, fine, moved},
    support::{Setup, client, get},
};
use crate::EgressError;

const HOST: &str = "127.0.0.2";
const OTHER: &str = "127.0.0.3";

fn at_most(per_window: u32, in_flight: u32) -> Setup {
    let mut setup = Setup::default();
    setup.throttle.limits = Limits {
        in_flight,
        per_window,
        window: Duration::from_secs(600),
    };
    setup
}

#[tokio::test]
async fn a_request_counts_once_and_is_over_with_its_last_byte() {
    let host = Host::on(PUBLIC, |_| fine("hello")).await;
    let client = client();
    let mut reply = client.send(get(host.url("/"))).await.unwrap();
    assert_eq!(client.counts(HOST), (1, 1, 0));
    let mut bytes = [0; 5];
    reply.body.read_exact(&mut bytes).await.unwrap();
    assert_eq!(client.counts(HOST), (0, 1, 0), "nothing more can come");
    assert_eq!(reply.body.read(&mut bytes).await.unwrap(), 0);
}

#[tokio::test]
async fn a_redirect_on_the_same_host_costs_one_more_start() {
    let host = Host::on(PUBLIC, |seen| match seen.uri.path() {
        "/old" => moved("/new"),
        _ => fine("ok"),
    })
    .await;
    // One slot is enough: the redirect is paid for under the slot that is held.
    let client = at_most(10, 1).build();
    let reply = client.send(get(host.url("/old"))).await.unwrap();
    assert_eq!(client.counts(HOST), (1, 2, 0));
    assert_eq!(reply.url, host.url("/new"));
    drop(reply);
    assert_eq!(client.counts(HOST), (0, 2, 0));
}

#[tokio::test]
async fn a_redirect_to_another_port_of_a_host_is_on_the_same_host() {
    let end = Host::on(PUBLIC, |_| fine("ok")).await;
    let start = Host::moving(PUBLIC, end.url("/")).await;
    let client = at_most(10, 1).build();
    assert_eq!(client.fetch(start.url("/")).await.unwrap(), "ok");
    assert_eq!(client.counts(HOST), (0, 2, 0));
}

#[tokio::test]
async fn a_redirect_to_another_host_costs_a_permit_there() {
    let end = Host::on(OTHER_PUBLIC, |_| fine("ok")).await;
    let start = Host::moving(PUBLIC, end.url("/")).await;
    let client = client();
    let reply = client.send(get(start.url("/"))).await.unwrap();
    assert_eq!(
        (client.counts(HOST), client.counts(OTHER)),
        ((0, 1, 0), (1, 1, 0))
    );
    drop(reply);
    assert_eq!(client.counts(OTHER), (0, 1, 0));
}

#[tokio::test]
async fn a_redirect_that_cannot_be_paid_for_is_not_followed() {
    let host = Host::on(PUBLIC, |_| moved("/new")).await;
    let client = at_most(1, 5).build();
    match client.fail(host.url("/old")).await {
        EgressError::Throttled(refused) => assert_eq!(refused.reason, Reason::Window),
        error => panic!("{error:?}"),
    }
    assert_eq!((host.seen().len(), client.counts(HOST)), (1, (0, 1, 0)));
}

#[tokio::test]
async fn a_redirect_to_a_busy_host_is_not_followed() {
    let end = Host::on(OTHER_PUBLIC, |_| fine("ok")).await;
    let start = Host::moving(PUBLIC, end.url("/")).await;
    let client = at_most(10, 1).build();
    let busy = client.permit(&end.url("/")).await;
    match client.fail(start.url("/")).await {
        EgressError::Throttled(refused) => {
            assert_eq!(
                (refused.domain.as_str(), refused.reason),
                (OTHER, Reason::InFlight)
            );
        }
        error => panic!("{error:?}"),
    }
    assert_eq!((end.connections(), client.counts(HOST)), (0, (0, 1, 0)));
    drop(busy);
}

#[tokio::test]
async fn a_redirect_beside_a_spent_rate_limit_is_not_followed_on_that_host() {
    let headers = [
        ("location", "/new"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "60"),
    ];
    let host = Host::on(PUBLIC, move |_| answer(302, &headers, "")).await;
    let client = client();
    match client.fail(host.url("/")).await {
        EgressError::Throttled(refused) => assert_eq!(refused.reason, Reason::Advised),
        error => panic!("{error:?}"),
    }
    assert_eq!(host.seen().len(), 1);
}

#[tokio::test]
async fn a_request_that_is_given_up_frees_its_permit() {
    let host = Host::hanging_after("").await;
    let client = client();
    let mut sending = Box::pin(client.send(get(host.url("/"))));
    let arrived = until_true("the request arrives", || host.connections() == 1);
    tokio::select! {
        reply = &mut sending => panic!("{reply:?}"),
        arrived = arrived => arrived.unwrap(),
    }
    assert_eq!(client.counts(HOST), (1, 1, 0));
    drop(sending);
    assert_eq!(
        client.counts(HOST),
        (0, 1, 0),
        "the start stays counted, the breaker is not told"
    );
}

#[tokio::test]
async fn a_body_that_is_given_up_frees_its_permit_and_its_connection() {
    let (closed, mut was_closed) = tokio::sync::mpsc::channel(1);
    let host = Host::scripted(move |mut stream| {
        let closed = closed.clone();
        async move {
            use tokio::io::AsyncWriteExt as _;
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab";
            stream.write_all(head).await.unwrap();
            let _ = stream.read_to_end(&mut Vec::new()).await;
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let client = client();
    let reply = client.send(get(host.url("/"))).await.unwrap();
    drop(reply);
    assert_eq!(client.counts(HOST), (0, 1, 0));
    within("the connection closes", was_closed.recv())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_success_that_says_that_nothing_remains_closes_the_host() {
    let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "90")];
    let host = Host::on(PUBLIC, move |_| answer(200, &headers, "ok")).await;
    for reads_on in [true, false] {
        let client = client();
        let mut reply = client.send(get(host.url("/"))).await.unwrap();
        if reads_on {
            reply.body.read_to_end(&mut Vec::new()).await.unwrap();
        }
        drop(reply);
        let status = client.status(HOST).unwrap();
        assert_eq!(
            status.closed.unwrap().why,
            ClosedReason::RateLimit,
            "{reads_on}"
        );
        assert_eq!((status.in_flight, status.failures_total), (0, 0));
    }
}

#[tokio::test]
async fn a_permit_of_another_host_pays_for_nothing() {
    let host = Host::on(PUBLIC, |_| fine("ok")).await;
    let client = client();
    let permit = client
        .permit(&"http://other.example/".parse().unwrap())
        .await;
    let error = client
        .egress
        .send(get(host.url("/")), permit)
        .await
        .unwrap_err();
    assert_matches!(error, EgressError::WrongPermit { .. });
    assert_eq!(
        (host.connections(), client.counts("other.example")),
        (0, (0, 0, 0))
    );
}

#[tokio::test]
async fn a_host_that_refuses_connections_is_left_alone_in_the_end() {
    let client = client();
    let url: url::Url = format!("http://{DEAD}/").parse().unwrap();
    for _ in 0..4 {
        let error = client.fail(url.clone()).await;
        assert_matches!(error, EgressError::Unreachable { .. });
    }
    let status = client.status(&DEAD.to_string()).unwrap();
    assert_eq!(status.closed.unwrap().why, ClosedReason::Breaker);
}
