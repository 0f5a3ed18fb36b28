//! Pings, silence, and the end of connections.

use std::time::Duration;

use bytes::Bytes;
use grip_relay::{Frame, Limits};
use serde_json::json;

use crate::support::*;

fn quick() -> Limits {
    Limits {
        ping_every: Duration::from_millis(50),
        idle: Duration::from_millis(120),
        ..unlimited()
    }
}

/// All frames up to the end.
async fn rest(client: &mut Client) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(frame) = client.next_frame().await {
        frames.push(frame);
    }
    frames
}

#[tokio::test(start_paused = true)]
async fn relay_8_a_silent_connection_is_pinged_and_then_closed_with_a_reason() {
    let node = Node::with(quick());
    let mut client = node.connect();
    let frames = rest(&mut client).await;
    assert_eq!(frames.first(), Some(&Frame::Ping(Bytes::new())));
    let [.., Frame::Text(_), Frame::Close(1001, _)] = frames.as_slice() else {
        panic!("{frames:?}");
    };
    client.ended().await;
}

#[tokio::test(start_paused = true)]
async fn relay_8_pongs_keep_a_connection_open() {
    let node = Node::with(quick());
    let mut client = node.connect();
    for _ in 0..8 {
        assert_eq!(client.next_frame().await, Some(Frame::Ping(Bytes::new())));
        client.frame(Frame::Pong(Bytes::new())).await;
    }
}

#[tokio::test]
async fn relay_8_a_reader_that_takes_nothing_is_cut_even_without_live_events() {
    let node = Node::with(Limits {
        ping_every: Duration::from_millis(50),
        ..unlimited()
    });
    let author = Author::new();
    let notes = (0..100).map(|n| author.event(1, &"x".repeat(10_000), &[], now() - n));
    node.writer.save(notes.collect()).await.unwrap();
    let client = node.connect_with_room(1);
    client.send(json!(["REQ", "s", {}])).await;
    let stats = node.relay.stats();
    eventually("it is cut", || {
        stats.subscriptions.get() == 0 && stats.stored_sent.get() > 0
    })
    .await;
    client.ended().await;
    assert_eq!(stats.slow_readers_cut.get(), 1);
}

#[tokio::test]
async fn a_stopping_relay_answers_what_is_under_way_and_says_goodbye() {
    let node = Node::start();
    node.policy.gate.send_replace(false);
    let mut client = node.connect();
    client.request("s", json!({})).await;
    let event = Author::new().event(1617, "", &[], now());
    client.event(&event).await;
    client.expect_silence().await;
    node.group.token().cancel();
    node.policy.gate.send_replace(true);
    assert!(client.ok(&event).await.0);
    let frames = rest(&mut client).await;
    let [Frame::Text(notice), Frame::Close(1012, _)] = frames.as_slice() else {
        panic!("{frames:?}");
    };
    assert!(String::from_utf8_lossy(notice).contains("restarting"));
    client.ended().await;
}

/// The answer of the first event cannot be sent while the second is still being decided, by a client that
/// has closed its own side already.
#[tokio::test]
async fn a_connection_that_breaks_while_its_last_events_are_decided_just_ends() {
    let node = Node::start();
    node.policy.gate.send_replace(false);
    let mut client = node.connect();
    client.stop_reading();
    client.text(r#"["EVENT", {}]"#).await;
    client
        .event(&Author::new().event(1617, "", &[], now()))
        .await;
    client.hang_up();
    client.ended().await;
    assert_eq!(node.relay.stats().connections.get(), 0);
}

#[tokio::test]
async fn a_close_frame_ends_the_connection() {
    let node = Node::start();
    let mut client = node.connect();
    client.request("s", json!({})).await;
    client.frame(Frame::Close(1000, "".into())).await;
    assert_eq!(rest(&mut client).await, []);
    client.ended().await;
    assert_eq!(node.relay.stats().subscriptions.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn relay_8_a_client_whose_message_is_worked_on_is_not_silent() {
    let node = Node::with(Limits {
        in_flight_events: 1,
        ..quick()
    });
    node.policy.gate.send_replace(false);
    let mut client = node.connect();
    let author = Author::new();
    // More than is taken in flight: reading stops until the first is settled.
    let events: Vec<_> = (0..20)
        .map(|n| author.event(1617, &n.to_string(), &[], now()))
        .collect();
    for event in &events {
        client.event(event).await;
    }
    for _ in 0..10 {
        assert_eq!(client.next_frame().await, Some(Frame::Ping(Bytes::new())));
    }
    node.policy.gate.send_replace(true);
    for event in &events {
        assert!(client.ok(event).await.0);
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_gets_a_notice_and_the_code_for_it() {
    let (_node, mut client, _) = start();
    client.frame(Frame::TooLong).await;
    let notice = client.next().await;
    assert_eq!(notice[0], "NOTICE", "{notice}");
    let closed = client.next_frame().await;
    assert!(matches!(closed, Some(Frame::Close(1009, _))), "{closed:?}");
}
