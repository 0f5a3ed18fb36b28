//! Bounds on clients: each is told, or cut, at once; probes always answer.

use std::time::Duration;

use anyhow::{Context as _, Result};
use grip_testkit::{Author, RelayClient, WorkTree, until, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{Node, request};

/// Short enough to wait for, long enough for a slow machine not to trip over.
const SHORT: Duration = Duration::from_millis(300);

/// Reads until the server closes.
async fn closed(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = within("the server closes", stream.read_to_end(&mut rest)).await?;
    Ok(rest)
}

#[tokio::test]
async fn a_client_that_never_ends_its_headers_is_cut() -> Result<()> {
    let node = Node::start_with(|s| s.timeouts.header = SHORT).await?;
    for beginning in [
        &b""[..],
        b"GET / HT",
        b"GET / HTTP/1.1\r\nhost: x\r\n",
        b"PRI * HTTP/2.0",
    ] {
        let mut stream = TcpStream::connect(node.addr).await?;
        stream.write_all(beginning).await?;
        closed(&mut stream).await?;
    }
    let metrics = node.get("/metrics").await?.text();
    assert!(
        metrics.contains("connections_cut_total{reason=\"slow_head\"} 4"),
        "{metrics}"
    );
    Ok(())
}

#[tokio::test]
async fn a_kept_connection_may_rest_longer_than_a_head_but_not_for_ever() -> Result<()> {
    let node = Node::start_with(|s| {
        s.timeouts.header = SHORT;
        s.timeouts.idle = SHORT * 4;
    })
    .await?;
    let mut stream = TcpStream::connect(node.addr).await?;
    let began = tokio::time::Instant::now();
    stream
        .write_all(&request("GET", "/healthz", &[], b""))
        .await?;
    let answer = closed(&mut stream).await?;
    assert!(answer.starts_with(b"HTTP/1.1 200"));
    assert!(
        began.elapsed() >= SHORT * 3,
        "it was cut after {:?}",
        began.elapsed()
    );
    Ok(())
}

#[tokio::test]
async fn a_body_that_stops_coming_is_given_up() -> Result<()> {
    let node = Node::start_with(|s| s.timeouts.body_stall = SHORT).await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let url = node.host(&owner, "x", &tree).await?;
    let path = url.split_once(&node.authority()).context("a path")?.1;
    let mut stream = TcpStream::connect(node.addr).await?;
    let head = format!(
        "POST {path}/git-receive-pack HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/x-git-receive-pack-request\r\ncontent-length: 5000\r\n\r\n00"
    );
    stream.write_all(head.as_bytes()).await?;
    let answer = closed(&mut stream).await?;
    assert!(
        answer.starts_with(b"HTTP/1.1 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(node.get("/readyz").await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up_and_its_slot_is_free_again() -> Result<()> {
    let node = Node::start_with(|s| s.timeouts.body_stall = SHORT).await?;
    let url = node.announce(&Author::new(), "x").await?;
    let path = url.split_once(&node.authority()).context("a path")?.1;
    let mut stream = TcpStream::connect(node.addr).await?;
    let head = format!(
        "POST {path}/git-receive-pack HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         content-type: application/x-git-receive-pack-request\r\ncontent-length: 5000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let began = tokio::time::Instant::now();
    let mut answer = [0; 1024];
    loop {
        // One byte at a time, each long before the stall would be over.
        if stream.write_all(b"0").await.is_err() {
            break;
        }
        let reading = tokio::time::timeout(SHORT / 10, stream.read(&mut answer)).await;
        if reading.is_ok() {
            break;
        }
        assert!(began.elapsed() < SHORT * 20, "it trickles on");
    }
    until("the slot is free again", || async {
        let metrics = node.get("/metrics").await.ok()?.text();
        let line = "requests_in_flight{route=\"push\"} 0";
        metrics.contains(line).then_some(())
    })
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
    assert_eq!(reply.status, 429);
    assert!(
        !reply
            .must_allow_any_origin()
            .header("retry-after")
            .is_empty()
    );
    assert!(reply.text().contains("Too many open connections"));
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
    let upgrade = |ip: &str| {
        let headers = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("x-forwarded-for", ip),
        ];
        request("GET", "/", &headers, b"")
    };
    let open = async |ip: &str| -> Result<(TcpStream, String)> {
        let mut stream = TcpStream::connect(node.addr).await?;
        stream.write_all(&upgrade(ip)).await?;
        let mut head = [0; 12];
        within("an answer", stream.read_exact(&mut head)).await??;
        Ok((stream, String::from_utf8_lossy(&head).into_owned()))
    };
    let first = open("203.0.113.1").await?;
    assert_eq!(first.1, "HTTP/1.1 101");
    assert_eq!(open("203.0.113.1").await?.1, "HTTP/1.1 429");
    assert_eq!(open("203.0.113.2").await?.1, "HTTP/1.1 101");
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
    assert!(
        RelayClient::connect(&format!("ws://{}", node.addr))
            .await
            .is_ok()
    );
    let metrics = node.get("/metrics").await?.text();
    assert!(
        metrics.contains("busy_rejections_total{route=\"page\"} 2"),
        "{metrics}"
    );
    Ok(())
}

#[tokio::test]
async fn a_busy_git_route_says_so_where_git_prints_it() -> Result<()> {
    let node = Node::start().await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let url = node.host(&owner, "x", &tree).await?;
    let mut settings = (**node.settings.load()).clone();
    (settings.limits.fetch, settings.limits.push) = (0, 0);
    node.settings.store(settings.into());
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
    let mut stream = TcpStream::connect(node.addr).await?;
    for last in [false, false, true] {
        let headers: &[_] = if last {
            &[("connection", "close")]
        } else {
            &[]
        };
        stream
            .write_all(&request("GET", "/healthz", headers, b""))
            .await?;
    }
    let mut raw = Vec::new();
    within("three answers", stream.read_to_end(&mut raw)).await??;
    let text = String::from_utf8_lossy(&raw);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 3, "{text}");
    Ok(())
}
