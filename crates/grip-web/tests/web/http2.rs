//! HTTP/2 without TLS: who takes nothing of an answer holds nothing up for long.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use grip_tasks::{JoinHandle, TaskGroup};
use grip_testkit::{until, within};
use h2::{RecvStream, client::SendRequest};
use http::{Method, Request, Response};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::Node;

const SHORT: Duration = Duration::from_millis(300);

/// One connection, which takes `window` bytes of each answer before it is told to take more.
struct Client {
    requests: SendRequest<Bytes>,
    /// Ends with the connection.
    driver: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    async fn open(node: &Node, from: &str, window: u32) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from.parse()?, 0))?;
        let stream = socket.connect(node.addr).await?;
        let mut builder = h2::client::Builder::new();
        let handshake = builder.initial_window_size(window).handshake(stream);
        let (requests, connection) = within("a handshake", handshake).await??;
        let driver = TaskGroup::new("client").spawn("driver", connection);
        Ok(Self { requests, driver })
    }

    /// The head of an answer; its body is there to be taken.
    async fn ask(&self, method: Method, path: &str) -> Result<Response<RecvStream>> {
        let requests = self.requests.clone().ready();
        let mut requests = within("room for a request", requests).await??;
        let request = Request::builder().method(method);
        let request = request.uri(format!("http://localhost{path}")).body(())?;
        let (response, _) = requests.send_request(request, true)?;
        Ok(within("the head of an answer", response).await??)
    }

    async fn get(&self, path: &str) -> Result<Response<RecvStream>> {
        self.ask(Method::GET, path).await
    }
}

#[tokio::test]
async fn a_stream_whose_client_takes_nothing_is_cut_alone_and_its_slot_is_free_again() -> Result<()>
{
    let node = Node::start_with(|s| s.timeouts.write_stall = SHORT).await?;
    let client = Client::open(&node, "127.0.0.1", 0).await?;
    let mut stuck = Vec::new();
    for _ in 0..8 {
        let response = client.get("/api/v1/tasks").await?;
        assert_eq!(response.status(), 200);
        stuck.push(response.into_body());
    }
    for mut body in stuck {
        let data = within("the stream is cut", body.data()).await?;
        let error = data.context("no end")?.expect_err("no window, no data");
        assert!(error.is_reset(), "{error}");
    }
    until("all slots are free again", || async {
        let metrics = node.get("/metrics").await.ok()?.text();
        let free = metrics.contains("requests_in_flight{route=\"api\"} 0");
        let counted = metrics.contains("io_timeouts_total{op=\"stuck\"} 8");
        (free && counted).then_some(())
    })
    .await?;
    let other = client.ask(Method::HEAD, "/api/v1/tasks").await?;
    assert_eq!(other.status(), 200, "the connection itself goes on");
    Ok(())
}

#[tokio::test]
async fn one_address_that_takes_nothing_leaves_slots_to_others() -> Result<()> {
    let node = Node::start_with(|s| {
        s.trusted_proxies.clear();
        s.limits.api = 8;
    })
    .await?;
    let client = Client::open(&node, "127.0.0.1", 0).await?;
    let (mut kept, mut statuses) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let response = client.get("/api/v1/tasks").await?;
        statuses.push(response.status().as_u16());
        kept.push(response);
    }
    assert_eq!(statuses, [200, 200, 429, 429, 429, 429, 429, 429]);
    let other = Client::open(&node, "127.0.0.2", 0).await?;
    assert_eq!(other.get("/api/v1/tasks").await?.status(), 200);
    Ok(())
}

#[tokio::test]
async fn a_long_answer_comes_whole() -> Result<()> {
    let node = Node::start().await?;
    let client = Client::open(&node, "127.0.0.1", 700).await?;
    let mut body = client.get("/metrics").await?.into_body();
    let mut text = Vec::new();
    while let Some(data) = within("more", body.data()).await? {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        text.extend(data);
    }
    let text = String::from_utf8(text)?;
    assert!(text.len() > 7_000 && text.ends_with("# EOF\n"), "{text}");
    Ok(())
}

#[tokio::test]
async fn beyond_all_bounds_a_connection_is_closed_after_its_first_answer() -> Result<()> {
    let node = Node::start_with(|s| s.limits.connections = 0).await?;
    for (path, status) in [("/healthz", 200), ("/", 429)] {
        let client = Client::open(&node, "127.0.0.1", 1 << 16).await?;
        let response = client.get(path).await?;
        assert_eq!(response.status(), status);
        drop(response);
        within("the node closes", client.driver).await???;
    }
    let metrics = node.get("/metrics").await?.text();
    assert!(
        !metrics.contains("connections_cut_total{"),
        "not by a watch"
    );
    Ok(())
}

#[tokio::test]
async fn one_address_cannot_take_the_whole_reserve() -> Result<()> {
    let node = Node::start_with(|s| {
        s.trusted_proxies.clear();
        s.limits.connections = 0;
    })
    .await?;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(TcpStream::connect(node.addr).await?);
    }
    assert!(node.get("/healthz").await.is_err(), "it is closed unread");
    let other = Client::open(&node, "127.0.0.2", 1 << 16).await?;
    assert_eq!(other.get("/healthz").await?.status(), 200);
    Ok(())
}
