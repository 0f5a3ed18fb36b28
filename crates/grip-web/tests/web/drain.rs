//! The end of a node, told truthfully.

use std::time::Duration;

use anyhow::Result;
use grip_tasks::Ended;
use grip_testkit::{Author, http, until, wire};
use tokio::net::TcpStream;

use crate::support::Node;

#[tokio::test]
async fn while_draining_probes_answer_and_everything_else_is_told() -> Result<()> {
    let node = Node::start().await?;
    let url = node.announce(&Author::new(), "x").await?;
    let path = url.replace(&format!("http://{}", node.addr), "");
    // A request whose body is still to come keeps the node from ending.
    let mut slow = node.open().await?;
    let path = format!("{path}/git-receive-pack");
    let (tip, name) = ("1".repeat(40), format!("refs/nostr/{}", "2".repeat(64)));
    let mut body = wire::commands(&[(wire::ZERO, &tip, &name)], wire::CAPABILITIES);
    body.extend_from_slice(b"no pack");
    let push = http::request("POST", &path, &[("content-type", wire::PUSH_TYPE)], &body);
    slow.send(&push[..push.len() - 2]).await?;
    node.metrics_with(&["requests_in_flight{route=\"push\"} 1"])
        .await?;
    node.group.token().cancel();
    until("the node says that it drains", || async {
        let reply = node.get("/readyz").await.ok()?;
        (reply.status == 503).then_some(())
    })
    .await?;
    let ready = node.get("/readyz").await?;
    assert!(ready.text().contains("draining"), "{}", ready.text());
    assert_eq!(node.get("/healthz").await?.status, 200);
    let page = node.get("/").await?;
    assert_eq!(page.must_allow_any_origin().status, 503);
    assert!(page.text().contains("shutting down"));
    slow.send(&push[push.len() - 2..]).await?;
    slow.response().await?.must_be(200, &[]);
    assert_eq!(node.stop(Duration::from_secs(10)).await, Ended::Drained);
    assert!(node.get("/healthz").await.is_err(), "the port is closed");
    Ok(())
}

#[tokio::test]
async fn an_idle_node_with_open_websockets_ends_within_its_grace() -> Result<()> {
    let node = Node::start().await?;
    let mut client = node.relay().await?;
    let _kept = TcpStream::connect(node.addr).await?;
    assert_eq!(node.stop(Duration::from_secs(10)).await, Ended::Drained);
    while client.next().await?.is_some() {}
    Ok(())
}
