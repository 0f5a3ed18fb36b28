//! The relay at `/`.

use anyhow::Result;
use grip_testkit::{Author, RelayClient};
use serde_json::json;

use crate::support::Node;

#[tokio::test]
async fn g01_1_the_relay_answers_at_the_root_and_nowhere_else() -> Result<()> {
    let node = Node::start().await?;
    let mut client = node.relay().await?;
    assert!(client.query(&[json!({"kinds": [30617]})]).await?.is_empty());
    for path in ["/relay", "/healthz", "/npub1x/y.git"] {
        let url = format!("ws://{}{path}", node.addr);
        assert!(RelayClient::connect(&url).await.is_err(), "{path}");
    }
    let with_query = format!("ws://{}/?x=y", node.addr);
    assert!(RelayClient::connect(&with_query).await.is_ok());
    Ok(())
}

#[tokio::test]
async fn a_handshake_without_its_key_is_a_clear_error() -> Result<()> {
    let node = Node::start().await?;
    let headers = [("connection", "upgrade"), ("upgrade", "websocket")];
    let mut headers = headers.to_vec();
    headers.push(("sec-websocket-version", "13"));
    // The client helper adds `connection: close`; both tokens stand side by side.
    let reply = node.ask("GET", "/", &headers, b"").await?;
    assert_eq!(reply.must_allow_any_origin().status, 400);
    assert!(reply.text().contains("Sec-WebSocket-Key"));
    Ok(())
}

#[tokio::test]
async fn a_message_beyond_the_bound_ends_the_connection_and_not_the_node() -> Result<()> {
    let node = Node::start().await?;
    let mut client = node.relay().await?;
    client.send_text("x".repeat(5 << 20)).await.ok();
    let notice = client.next().await?.expect("told before the end");
    assert_eq!(notice[0], "NOTICE", "{notice}");
    while let Ok(Some(_)) = client.next().await {}
    let mut other = node.relay().await?;
    assert!(other.query(&[json!({"limit": 1})]).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn events_pass_both_ways() -> Result<()> {
    let node = Node::start().await?;
    let owner = Author::new();
    let mut client = node.relay().await?;
    let event = owner.announcement(&node.authority(), "x", vec![]);
    assert!(client.publish(&event).await?.is_held());
    assert!(!client.serves(&event.id).await?);
    Ok(())
}
