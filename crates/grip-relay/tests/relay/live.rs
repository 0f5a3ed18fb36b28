//! Live events: relay.md §3, §6, §8, §9.

use grip_relay::{Frame, Limits};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn relay_3_live_events_reach_those_whose_filter_matches() {
    let node = Node::start();
    let (author, other) = (Author::new(), Author::new());
    let event = author.event(1621, "x", &[&["a", "30617:x:y"], &["t", "bug"]], now());
    let key = author.0.public_key().to_hex();
    let other_key = other.0.public_key().to_hex();
    let mut listeners = Vec::new();
    for filter in [
        json!({}),
        json!({"ids": [event.id.to_hex()]}),
        json!({"authors": [other_key, key]}),
        json!({"kinds": [1, 1621]}),
        json!({"#a": ["30617:x:y"]}),
        json!({"#t": ["bug"], "#a": ["z", "30617:x:y"], "authors": [key], "limit": 0}),
        json!({"since": now() - 10, "until": now() + 10}),
    ] {
        let mut client = node.connect();
        client.request("in", filter).await;
        listeners.push(client);
    }
    let mut deaf = node.connect();
    for (n, filter) in [
        json!({"ids": ["0".repeat(64)]}),
        json!({"authors": [other_key]}),
        json!({"kinds": [1]}),
        json!({"#A": ["30617:x:y"]}),
        json!({"#t": ["bug"], "kinds": [1]}),
        json!({"until": now() - 10}),
        json!({"kinds": []}),
    ]
    .into_iter()
    .enumerate()
    {
        deaf.request(&n.to_string(), filter).await;
    }
    let mut publisher = node.connect();
    assert!(publisher.publish(&event).await.0);
    for client in &mut listeners {
        assert_eq!(client.next().await, json!(["EVENT", "in", event]));
        client.expect_silence().await;
    }
    deaf.expect_silence().await;
    assert_eq!(node.relay.stats().deliveries.get(), 7);
}

#[tokio::test]
async fn relay_9_2_a_subscription_sees_an_event_once_however_many_filters_match() {
    let node = Node::start();
    let mut client = node.connect();
    client
        .send(json!(["REQ", "s", {"kinds": [1]}, {"#t": ["a", "b"]}, {}]))
        .await;
    client.stored("s").await;
    let event = Author::new().event(1, "", &[&["t", "a"], &["t", "b"]], now());
    client.event(&event).await;
    assert_eq!(client.next().await, json!(["EVENT", "s", event]));
    assert!(client.ok(&event).await.0);
    client.event(&event).await;
    assert!(client.ok(&event).await.0, "a duplicate is not sent again");
    client.expect_silence().await;
}

#[tokio::test]
async fn closed_and_replaced_subscriptions_hear_nothing() {
    let node = Node::start();
    let mut client = node.connect();
    client.request("closed", json!({})).await;
    client.request("replaced", json!({"kinds": [1]})).await;
    client.request("replaced", json!({"kinds": [2]})).await;
    client.send(json!(["CLOSE", "closed"])).await;
    client.publish(&Author::new().note("x")).await;
    client.expect_silence().await;
    client.hang_up();
    client.ended().await;
    assert_eq!(node.relay.stats().subscriptions.get(), 0);
    assert_eq!(node.relay.stats().connections.get(), 0);
}

#[tokio::test]
async fn saved_and_refused_events_are_told_apart_by_subscribers() {
    let node = Node::start();
    let (mut client, mut publisher) = (node.connect(), node.connect());
    client.request("s", json!({})).await;
    let author = Author::new();
    publisher.publish(&author.note(REFUSED)).await;
    let saved = author.note("released");
    node.writer.save(vec![saved.clone()]).await.unwrap();
    assert_eq!(client.next().await, json!(["EVENT", "s", saved]));
    node.writer.remove(vec![saved.id]).await.unwrap();
    assert!(client.request("again", json!({})).await.is_empty());
}

#[tokio::test]
async fn relay_8_a_slow_reader_is_cut_with_a_reason_and_harms_nobody_else() {
    let node = Node::with(Limits {
        outbound_bytes: 64 << 10,
        ..unlimited()
    });
    let mut slow = node.connect_with_room(2);
    slow.send(json!(["REQ", "s", {}])).await;
    assert_eq!(slow.next().await[0], "EOSE");
    let mut quick = node.connect();
    quick.request("s", json!({})).await;
    let mut publisher = node.connect();
    let author = Author::new();
    for n in 0..30 {
        let event = author.note(&format!("{n} {}", "x".repeat(5_000)));
        assert!(publisher.publish(&event).await.0);
        assert_eq!(quick.next().await, json!(["EVENT", "s", event]));
    }
    let stats = node.relay.stats();
    eventually("it counts as slow", || {
        stats.outbound_bytes.get() < 64 << 10
    })
    .await;
    // What was on its way, then the reason, then the end.
    let mut last = Vec::new();
    while let Some(frame) = slow.next_frame().await {
        last.push(frame);
    }
    let [.., Frame::Text(notice), Frame::Close(1008, _)] = last.as_slice() else {
        panic!("{last:?}");
    };
    assert!(String::from_utf8_lossy(notice).contains("faster than you read"));
    slow.ended().await;
    assert_eq!(stats.slow_readers_cut.get(), 1);
    assert_eq!(stats.subscriptions.get(), 1);
}

#[tokio::test]
async fn a_thousand_subscribers_hear_every_event() {
    let node = Node::start();
    let mut clients = Vec::new();
    for _ in 0..1_000 {
        let mut client = node.connect();
        client.request("s", json!({"kinds": [1]})).await;
        clients.push(client);
    }
    let mut publisher = node.connect();
    let author = Author::new();
    let events: Vec<_> = (0..5).map(|n| author.note(&n.to_string())).collect();
    for event in &events {
        publisher.publish(event).await;
    }
    for client in &mut clients {
        for event in &events {
            assert_eq!(client.next().await[2]["id"], event.id.to_hex());
        }
    }
    assert_eq!(node.relay.stats().deliveries.get(), 5_000);
}

#[tokio::test]
async fn a_refused_request_closes_the_subscription_of_its_id() {
    let (node, mut client, author) = start();
    for (n, bad) in [json!({"search": "x"}), json!({"ids": ["short"]}), json!(7)]
        .into_iter()
        .enumerate()
    {
        let sub = n.to_string();
        client
            .request(&sub, json!({"kinds": [1], "limit": 0}))
            .await;
        client.send(json!(["REQ", sub, bad])).await;
        let closed = client.next().await;
        assert_eq!((&closed[0], &closed[1]), (&json!("CLOSED"), &json!(sub)));
    }
    // A count that is refused closes nothing: it opened nothing.
    client
        .request("kept", json!({"kinds": [1], "limit": 0}))
        .await;
    client.send(json!(["COUNT", "kept", {"search": "x"}])).await;
    assert_eq!(client.next().await[0], "CLOSED");
    let mut publisher = node.connect();
    let event = author.note("x");
    assert!(publisher.publish(&event).await.0);
    assert_eq!(client.next().await, json!(["EVENT", "kept", event]));
    client.expect_silence().await;
}
