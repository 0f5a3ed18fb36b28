//! Messages that are no EVENT, REQ or NEG: relay.md §2.

use grip_relay::Frame;
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn relay_2_bad_input_gets_a_notice_and_the_connection_goes_on() {
    let node = Node::start();
    let mut client = node.connect();
    for bad in [
        "",
        "nonsense",
        "[\"EVENT\"]",
        "[\"EVENT\",{}]",
        "[\"REQ\",",
        "[1,2]",
    ] {
        client.text(bad).await;
        let answer = client.next().await;
        assert_eq!(answer[0], "NOTICE", "{bad}: {answer}");
        assert!(
            answer[1].as_str().unwrap().starts_with("invalid:"),
            "{answer}"
        );
    }
    client.frame(Frame::Binary).await;
    assert!(client.next().await[1].as_str().unwrap().contains("binary"));
    client.text("x".repeat((2 << 20) + 1)).await;
    assert!(
        client.next().await[1]
            .as_str()
            .unwrap()
            .contains("at most 2097152 bytes")
    );
    assert!(client.publish(&Author::new().note("still here")).await.0);
}

#[tokio::test]
async fn relay_6_auth_is_refused_in_words() {
    let node = Node::start();
    let mut client = node.connect();
    let event = Author::new().event(22_242, "", &[], now());
    client.send(json!(["AUTH", event])).await;
    let (accepted, message) = client.ok(&event).await;
    assert!(!accepted && message.contains("not offered"), "{message}");
    client.send(json!(["AUTH", 1])).await;
    assert_eq!(client.next().await[0], "NOTICE");
}

#[tokio::test]
async fn relay_6_count_counts_distinct_events_and_ignores_limits() {
    let (_node, mut client, author) = start();
    for n in 0..5 {
        client.publish(&author.note(&n.to_string())).await;
    }
    client
        .send(json!(["COUNT", "c", {"kinds": [1], "limit": 2}, {"limit": 0}]))
        .await;
    assert_eq!(client.next().await, json!(["COUNT", "c", {"count": 5}]));
    client.send(json!(["COUNT", "c", {"kinds": []}])).await;
    assert_eq!(client.next().await, json!(["COUNT", "c", {"count": 0}]));
    client.send(json!(["COUNT", "c", {"search": "x"}])).await;
    assert_eq!(client.next().await[0], "CLOSED");
}

#[tokio::test]
async fn messages_are_counted_by_type() {
    let node = Node::start();
    let mut client = node.connect();
    client.publish(&Author::new().note("x")).await;
    client.request("s", json!({})).await;
    client.send(json!(["CLOSE", "s"])).await;
    client.text("nonsense").await;
    client.next().await;
    let counted: Vec<_> = node
        .relay
        .stats()
        .messages()
        .filter(|(_, n)| *n > 0)
        .collect();
    assert_eq!(
        counted,
        [("EVENT", 1), ("REQ", 1), ("CLOSE", 1), ("other", 1)]
    );
    assert_eq!(node.relay.stats().subscriptions.get(), 0);
}
