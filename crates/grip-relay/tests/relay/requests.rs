//! REQ: stored events, limits, and the seam to live ones: relay.md §2, §3, §8.

use std::collections::HashSet;

use grip_nostr::Event;
use grip_relay::Limits;
use serde_json::{Value, json};

use crate::support::*;

fn ids<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<String> {
    events.into_iter().map(|event| event.id.to_hex()).collect()
}

/// `count` notes of one author, newest first, put into the store directly.
async fn notes(node: &Node, count: u64, content: &str) -> Vec<Event> {
    let author = Author::new();
    let start = now() - 1_000_000;
    let notes: Vec<Event> = (0..count)
        .map(|n| author.event(1, content, &[&["t", "note"]], start - n))
        .collect();
    node.writer.save(notes.clone()).await.unwrap();
    notes
}

#[tokio::test]
async fn relay_3_limits_are_kept_and_the_newest_come_first() {
    let node = Node::with(Limits {
        default_limit: 10,
        max_limit: 20,
        ..unlimited()
    });
    let notes = notes(&node, 30, "x").await;
    let mut client = node.connect();
    assert_eq!(
        client.request("s", json!({"limit": 3})).await,
        ids(&notes[..3])
    );
    assert_eq!(client.request("s", json!({})).await, ids(&notes[..10]));
    assert_eq!(
        client.request("s", json!({"limit": 1000})).await,
        ids(&notes[..20])
    );
    assert!(client.request("s", json!({"limit": 0})).await.is_empty());
    assert!(client.request("s", json!({"kinds": []})).await.is_empty());
    assert_eq!(
        node.relay.stats().subscriptions.get(),
        1,
        "each replaced the one before"
    );
}

#[tokio::test]
async fn relay_3_an_event_that_matches_several_filters_is_sent_once() {
    let node = Node::start();
    let notes = notes(&node, 5, "x").await;
    let mut client = node.connect();
    let by_id = json!({"ids": [notes[4].id.to_hex()]});
    client
        .send(json!(["REQ", "s", {"kinds": [1]}, {"#t": ["note"]}, by_id]))
        .await;
    assert_eq!(client.stored("s").await, ids(&notes));
}

#[tokio::test]
async fn relay_2_each_of_many_requests_gets_its_eose() {
    let node = Node::start();
    let mut client = node.connect();
    for n in 0..100 {
        client
            .send(json!(["REQ", n.to_string(), {"kinds": [n]}]))
            .await;
    }
    for n in 0..100 {
        assert!(client.stored(&n.to_string()).await.is_empty());
    }
}

#[tokio::test]
async fn relay_2_events_reach_clients_as_they_were_signed() {
    let node = Node::start();
    let mut client = node.connect();
    let odd = "\u{0}\u{7f}\u{1}é\u{2028}\"\\/\n\t\u{8}\u{c}🙂";
    let event = Author::new().event(1, odd, &[&["t", odd, "", "x"]], now());
    assert!(client.publish(&event).await.0);
    client.send(json!(["REQ", "a \"sub\" \u{1}", {}])).await;
    assert_eq!(
        client.next().await,
        json!(["EVENT", "a \"sub\" \u{1}", event])
    );
}

#[tokio::test]
async fn relay_8_an_answer_larger_than_a_slice_comes_whole_and_in_order() {
    let node = Node::start();
    // 3 MB, and a client that takes little at a time.
    let notes = notes(&node, 1_500, &"x".repeat(2_000)).await;
    let mut client = node.connect_with_room(4);
    let asked = json!({"limit": 5_000});
    assert_eq!(client.request("s", asked).await, ids(&notes));
    assert_eq!(node.relay.stats().stored_sent.get(), 1_500);
}

#[tokio::test]
async fn relay_8_a_slow_client_holds_little_of_its_answer_in_memory() {
    let node = Node::start();
    let notes = notes(&node, 500, &"x".repeat(20_000)).await;
    let mut client = node.connect_with_room(1);
    client.send(json!(["REQ", "s", {"limit": 5_000}])).await;
    // Ten megabytes are asked for; the queue holds a few slices.
    let stats = node.relay.stats();
    eventually("the first slices wait", || stats.stored_sent.get() >= 20).await;
    assert!(stats.outbound_bytes.get() < 1 << 20);
    assert_eq!(client.stored("s").await, ids(&notes));
}

#[tokio::test]
async fn relay_3_subscriptions_are_bounded_in_number_and_memory() {
    let node = Node::with(Limits {
        subscriptions: 3,
        subscription_bytes: 52_000,
        ..unlimited()
    });
    let mut client = node.connect();
    for sub in ["a", "b", "c", "a"] {
        client.request(sub, json!({})).await;
    }
    client.send(json!(["REQ", "d", {}])).await;
    let answer = client.next().await;
    assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("d")));
    assert!(answer[2].as_str().unwrap().starts_with("rate-limited:"));
    client.send(json!(["CLOSE", "a"])).await;
    client.send(json!(["CLOSE", "never opened"])).await;
    client.request("d", json!({})).await;

    let long: Vec<Value> = (0..200).map(|n| json!(format!("{n:064}"))).collect();
    client.send(json!(["REQ", "d", {"ids": long}])).await;
    let answer = client.next().await;
    assert_eq!(
        answer,
        json!(["CLOSED", "d", grip_relay::SUBSCRIPTIONS_TOO_LARGE])
    );
    assert_eq!(
        node.relay.stats().subscriptions.get(),
        2,
        "the old `d` is gone"
    );
}

#[tokio::test]
async fn relay_3_an_expired_event_is_not_sent() {
    let node = Node::start();
    let author = Author::new();
    let soon = (now() + 1).to_string();
    let event = author.event(1, "short", &[&["expiration", &soon]], now());
    let mut client = node.connect();
    assert!(client.publish(&event).await.0);
    eventually("it expires", || now() > event.created_at.as_secs() + 1).await;
    assert!(client.request("s", json!({})).await.is_empty());
}

/// Events stream in while a client subscribes again and again; each must arrive exactly once,
/// stored or live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_9_2_no_event_is_lost_or_doubled_between_stored_and_live() {
    let node = Node::start();
    let author = Author::new();
    let events: Vec<Event> = (0..400).map(|n| author.note(&n.to_string())).collect();
    let all: HashSet<String> = ids(&events).into_iter().collect();
    let mut publisher = node.connect();
    let mut clients: Vec<_> = (0..20).map(|_| node.connect()).collect();
    let publish = async {
        for event in &events {
            publisher.event(event).await;
            tokio::task::yield_now().await;
        }
        for event in &events {
            assert!(publisher.ok(event).await.0);
        }
    };
    let listen = async {
        for (n, client) in clients.iter_mut().enumerate() {
            eventually("some are in", || {
                node.relay.stats().events_accepted.get() >= n as u64
            })
            .await;
            client.send(json!(["REQ", "s", {"kinds": [1]}])).await;
        }
    };
    tokio::join!(publish, listen);
    for client in &mut clients {
        let mut seen = HashSet::new();
        while seen.len() < all.len() {
            let message = client.next().await;
            if message[0] == "EVENT" {
                let id = message[2]["id"].as_str().unwrap().to_owned();
                assert!(seen.insert(id), "sent twice");
            }
        }
        assert_eq!(seen, all);
        client.expect_silence_after_eose().await;
    }
}
