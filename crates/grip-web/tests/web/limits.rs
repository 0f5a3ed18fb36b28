//! Bounds on clients: each is told, or cut, at once; probes always answer.

use std::time::Duration;

use anyhow::{Context as _, Result};
use grip_testkit::{
    Author, WorkTree,
    http::{self, Connection},
    until,
};

use crate::support::Node;

/// Short enough to wait for, long enough for a slow machine not to trip over.
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_client_that_never_ends_its_headers_is_cut() -> Result<()> {
    let node = Node::start_with(|s| s.timeouts.header = SHORT).await?;
    for beginning in [
        &b""[..],
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
        b"PRI * HTTP/2.0",
    ] {
        let mut connection = node.open().await?;
        connection.send(beginning).await?;
        connection.closed().await?;
    }
    let cut = "connections_cut_total{reason=\"slow_head\"} 4";
    node.get("/metrics").await?.must_be(200, &[cut]);
    Ok(())
}

#[tokio::test]
async fn a_kept_connection_may_rest_longer_than_a_head_but_not_for_ever() -> Result<()> {
    let node = Node::start_with(|s| {
        s.timeouts.header = SHORT;
        s.timeouts.idle = SHORT * 4;
    })
    .await?;
    let mut connection = node.open().await?;
    let began = tokio::time::Instant::now();
    connection.get("/healthz").await?.must_be(200, &[]);
    connection.closed().await?;
    let rested = began.elapsed();
    assert!(rested >= SHORT * 3, "it was cut after {rested:?}");
    Ok(())
}

/// The head of a push of 5,000 bytes.
async fn long_push(node: &Node) -> Result<Vec<u8>> {
    let url = node.announce(&Author::new(), "x").await?;
    let path = url.split_once(&node.authority()).context("a path")?.1;
    let head = format!(
        "POST {path}/git-receive-pack HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/x-git-receive-pack-request\r\ncontent-length: 5000\r\n\r\n"
    );
    Ok(head.into_bytes())
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() -> Result<()> {
    let node = Node::start_with(|s| s.timeouts.body_stall = SHORT).await?;
    let mut connection = node.open().await?;
    connection.send(&long_push(&node).await?).await?;
    connection.send(b"00").await?;
    connection.response().await?;
    assert_eq!(node.get("/readyz").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up_and_its_slot_is_free_again() -> Result<()> {
    let node = Node::start_with(|s| s.timeouts.body_stall = SHORT).await?;
    let mut connection = node.open().await?;
    connection.send(&long_push(&node).await?).await?;
    let began = tokio::time::Instant::now();
    // One byte at a time, each long before the stall would be over.
    while connection.send(b"0").await.is_ok() {
        let reading = tokio::time::timeout(SHORT / 10, connection.closed());
        if reading.await.is_ok() {
            break;
        }
        assert!(began.elapsed() < SHORT * 20, "it trickles on");
    }
    node.metrics_with(&["requests_in_flight{route=\"push\"} 0"])
        .await
}

#[tokio::test]
async fn one_address_has_a_bound_of_connections_and_is_told() -> Result<()> {
    let node = Node::start_with(|s| {
        s.trusted_proxies.clear();
        s.limits.connections_per_ip = 2;
    })
    .await?;
    let _first = node.relay().await?;
    let _second = node.relay().await?;
    let reply = node.get("/").await?;
    reply.must_be(429, &["Too many open connections"]);
    assert_ne!(reply.must_allow_any_origin().header("retry-after"), "");
    assert_eq!(node.get("/healthz").await?.status, 200);
    assert_eq!(node.get("/metrics").await?.status, 200);
    drop(_first);
    until("the place is free again", || async {
        let reply = node.get("/").await.ok()?;
        (reply.status == 200).then_some(())
    })
    .await
}

#[tokio::test]
async fn behind_a_proxy_clients_are_counted_by_their_own_address() -> Result<()> {
    let node = Node::start_with(|s| s.limits.connections_per_ip = 1).await?;
    let open = async |ip: &str| -> Result<(Connection, u16)> {
        let headers = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("x-forwarded-for", ip),
        ];
        let mut connection = node.open().await?;
        let response = connection.ask("GET", "/", &headers, b"").await?;
        Ok((connection, response.status))
    };
    let first = open("203.0.113.1").await?;
    assert_eq!(first.1, 101);
    assert_eq!(open("203.0.113.1").await?.1, 429);
    assert_eq!(open("203.0.113.2").await?.1, 101);
    Ok(())
}

#[tokio::test]
async fn requests_beyond_the_budget_of_an_address_are_told_to_wait() -> Result<()> {
    let node = Node::start_with(|s| {
        s.trusted_proxies.clear();
        s.limits.requests_per_second = 1;
        s.limits.request_burst = 2;
    })
    .await?;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(node.get("/icon.svg").await?.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(node.get("/readyz").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_full_route_says_busy_at_once_and_others_go_on() -> Result<()> {
    let node = Node::start_with(|s| s.limits.page = 0).await?;
    let reply = node.get("/").await?;
    assert_eq!(reply.status, 429);
    assert!(reply.text().contains("busy") && !reply.header("retry-after").is_empty());
    let html = [("accept", "text/html")];
    let page = node.ask("GET", "/", &html, b"").await?;
    assert_eq!(page.status, 429);
    assert!(page.header("content-type").starts_with("text/html"));
    node.relay().await?;
    let counted = "busy_rejections_total{route=\"page\"} 2";
    node.get("/metrics").await?.must_be(200, &[counted]);
    Ok(())
}

#[tokio::test]
async fn a_busy_git_route_says_so_where_git_prints_it() -> Result<()> {
    let node = Node::start().await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let url = node.host(&owner, "x", &tree).await?;
    node.change(|s| (s.limits.fetch, s.limits.push) = (0, 0));
    let clone = WorkTree::init()?.run(["fetch", &url]).await?;
    assert!(
        !clone.ok && clone.stderr.contains("remote error: The server is busy"),
        "{clone:?}"
    );
    let push = tree.push(&url, &["main:refs/heads/other"]).await?;
    assert!(
        !push.ok && push.stderr.contains("The server is busy"),
        "{push:?}"
    );
    assert!(push.stderr.contains("remote rejected"), "{push:?}");
    Ok(())
}

#[tokio::test]
async fn many_requests_share_one_kept_connection() -> Result<()> {
    let node = Node::start().await?;
    let mut connection = node.open().await?;
    let asked = http::request("GET", "/healthz", &[], b"");
    connection.send(&asked.repeat(3)).await?;
    for _ in 0..3 {
        connection.response().await?.must_be(200, &["ok"]);
    }
    Ok(())
}

#[tokio::test]
async fn metrics_are_within_the_rate_of_a_stranger_and_made_for_strangers_once_a_second()
-> Result<()> {
    let node = Node::start_with(|s| {
        s.limits.requests_per_second = 1;
        s.limits.request_burst = 3;
    })
    .await?;
    let scrape = async |ip: &'static str| {
        node.ask("GET", "/metrics", &[("x-forwarded-for", ip)], b"")
            .await
    };
    let first = scrape("198.51.100.1").await?;
    first.must_be(200, &["busy_rejections_total"]);
    // The scrapes so far are counted, and a second has not passed: the text is the same.
    for ip in ["198.51.100.2", "198.51.100.3"] {
        assert_eq!(scrape(ip).await?.text(), first.text());
    }
    // This machine sees the counters as they are.
    let own = node.get("/metrics").await?.text();
    assert_ne!(own, first.text());
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(scrape("198.51.100.9").await?.status);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    let newer = grip_testkit::until_ok("the text is made again", async || {
        let later = scrape("198.51.100.4").await?;
        Ok((later.status == 200 && later.text() != first.text()).then_some(()))
    });
    newer.await
}
