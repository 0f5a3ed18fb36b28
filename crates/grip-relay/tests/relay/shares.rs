//! Shares of strangers: what one client uses up is its own network's.

use std::{sync::Arc, time::Duration};

use grip_nostr::Event;
use grip_relay::{Admission, Frame, HourlyBytes, Limits, WritePolicy};
use grip_types::{EventSource, NetworkPrefixes, Origin};
use serde_json::{Value, json};

use crate::support::*;

/// Notes a second apart, so that they have an order.
fn notes(author: &Author, count: u64) -> Vec<Event> {
    let note = |n| author.event(1, "x", &[&["t", "x"]], now() - n);
    (0..count).map(note).collect()
}

fn too_big(reason: &Value) -> bool {
    reason
        .as_str()
        .unwrap()
        .starts_with("blocked: this query is too big")
}

#[tokio::test]
async fn a_query_that_costs_too_much_is_closed_with_the_reason_and_no_eose() {
    let node = Node::with(Limits {
        query_steps: 100,
        ..unlimited()
    });
    let author = Author::new();
    node.writer.save(notes(&author, 10_000)).await.unwrap();
    let mut client = node.connect();
    let endless = json!({"#t": ["x"], "#e": ["0".repeat(64)]});
    assert_eq!(
        client.request("small", endless).await,
        [""; 0],
        "an index settles it"
    );
    client.send(json!(["REQ", "all", {"limit": 5_000}])).await;
    loop {
        let message = client.next().await;
        if message[0] == "CLOSED" {
            assert!(too_big(&message[2]), "{message}");
            break;
        }
        assert_eq!(message[0], "EVENT", "no EOSE: {message}");
    }
    client.send(json!(["COUNT", "c", {}])).await;
    let counted = client.next().await;
    assert!(counted[0] == "CLOSED" && too_big(&counted[2]), "{counted}");
    client
        .send(json!(["NEG-OPEN", "n", {}, "6100000200"]))
        .await;
    let opened = client.next().await;
    assert!(opened[0] == "NEG-ERR" && too_big(&opened[2]), "{opened}");
    // Nothing of it is left open.
    assert_eq!(node.relay.stats().subscriptions.get(), 1);
    assert_eq!(node.relay.stats().reconciliations.get(), 0);
}

#[tokio::test]
async fn what_is_closed_or_replaced_while_it_is_worked_on_is_not_answered() {
    let node = Node::start();
    let author = Author::new();
    node.writer.save(notes(&author, 10_000)).await.unwrap();
    let mut client = node.connect();
    client.send(json!(["COUNT", "c", {}])).await;
    client.send(json!(["REQ", "s", {"limit": 5_000}])).await;
    client.send(json!(["REQ", "s", {"limit": 1}])).await;
    client.send(json!(["CLOSE", "c"])).await;
    client
        .send(json!(["NEG-OPEN", "n", {}, "6100000200"]))
        .await;
    client.send(json!(["NEG-CLOSE", "n"])).await;
    assert_eq!(client.stored("s").await.len(), 1, "that of the second");
    client.expect_silence().await;
    assert_eq!(node.relay.stats().subscriptions.get(), 1);
    assert_eq!(node.relay.stats().reconciliations.get(), 0);
}

#[tokio::test]
async fn a_sender_that_reads_no_answers_keeps_no_room_from_others() {
    let node = Node::with(Limits {
        in_flight_bytes_total: 64 << 10,
        ..unlimited()
    });
    let author = Author::new();
    let event = author.note("again and again");
    let deaf = node.connect_with_room(1);
    let text = json!(["EVENT", event]).to_string();
    let sent = async {
        // The relay stops reading from it at some point.
        for _ in 0..20_000 {
            deaf.text(text.clone()).await;
        }
    };
    let stopped = tokio::time::timeout(Duration::from_secs(5), sent).await;
    assert!(stopped.is_err(), "it is not read from for ever");
    let mut same_network = node.connect();
    assert!(same_network.publish(&author.note("honest")).await.0);
    let mut other = node.connect_from("192.0.2.2");
    assert!(other.publish(&author.note("honest too")).await.0);
}

#[tokio::test]
async fn subscriptions_of_one_network_leave_memory_to_others() {
    let node = Node::with(Limits {
        memory_bytes: 9 << 20,
        ..unlimited()
    });
    let values: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    let mut clients: Vec<Client> = (0..20).map(|_| node.connect()).collect();
    let mut refused = 0;
    for client in &mut clients {
        client.send(json!(["REQ", "s", {"#t": values}])).await;
        let answer = client.next().await;
        if answer[0] == "CLOSED" {
            assert!(
                answer[2].as_str().unwrap().starts_with("rate-limited:"),
                "{answer}"
            );
            refused += 1;
        }
    }
    assert!((5..20).contains(&refused), "{refused}");
    // A small one is always taken, and so is a large one of others.
    let mut small = node.connect();
    small.request("s", json!({"kinds": [1]})).await;
    let mut other = node.connect_from("192.0.2.2");
    other.request("s", json!({"#t": values})).await;
    // What is closed is free again.
    drop(clients);
    eventually("they are gone", || {
        node.relay.stats().subscriptions.get() == 2
    })
    .await;
    let mut again = node.connect();
    again.request("s", json!({"#t": values})).await;
}

#[tokio::test]
async fn half_received_messages_of_one_network_are_bounded() {
    let node = Node::with(Limits {
        memory_bytes: 9 << 20,
        ..unlimited()
    });
    let mut clients: Vec<Client> = (0..2).map(|_| node.connect()).collect();
    for client in &mut clients {
        client.frame(Frame::Partial(600 << 10)).await;
        client.expect_silence().await;
        client.frame(Frame::Partial(600 << 10)).await;
    }
    let mut third = node.connect();
    third.frame(Frame::Partial(1_300 << 10)).await;
    assert_eq!(third.next().await[0], "NOTICE");
    let closed = third.next_frame().await;
    assert!(matches!(closed, Some(Frame::Close(1013, _))), "{closed:?}");
    let mut other = node.connect_from("192.0.2.2");
    other.frame(Frame::Partial(600 << 10)).await;
    other.expect_silence().await;
}

#[tokio::test]
async fn readers_that_take_nothing_do_not_slow_the_writer_down() {
    let node = Node::start();
    let author = Author::new();
    let mut stalled = Vec::new();
    for n in 0..12 {
        let client = node.connect_as(&format!("192.0.2.{}", n + 10), 1);
        client
            .send(json!(["REQ", "s", {"kinds": [1], "limit": 0}]))
            .await;
        stalled.push(client);
    }
    eventually("they listen", || {
        node.relay.stats().subscriptions.get() == 12
    })
    .await;
    let mut publisher = node.connect();
    let content = "x".repeat(100_000);
    for n in 0..75 {
        let event = author.event(1, &content, &[], now() - n);
        assert!(publisher.publish(&event).await.0);
    }
    let stats = node.relay.stats();
    assert!(stats.outbound_bytes.get() > 64 << 20, "{stats:?}");
    eventually("they lag", || {
        stats.outbound_bytes.get() - stats.lagging_bytes.get() < 1 << 20
    })
    .await;
    // What is left is less than what makes the writer wait.
    assert!(
        publisher
            .publish(&author.event(2, "quick", &[], now()))
            .await
            .0
    );
}

#[tokio::test]
async fn bytes_of_events_that_need_no_relation_are_bounded_by_network() {
    let (node, mut client, _) = start();
    let content = "x".repeat(100_000);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..12 {
        // A new key costs nothing, so keys are no bound.
        let list = Author::new().event(10_317, &content, &[], now());
        let (accepted, message) = client.publish(&list).await;
        if accepted {
            taken += 1;
        } else {
            assert!(message.starts_with("rate-limited:"), "{message}");
            refused += 1;
        }
    }
    assert!(
        (9..=11).contains(&taken) && refused > 0,
        "{taken} {refused}"
    );
    let mut other = node.connect_from("192.0.2.2");
    let list = Author::new().event(10_317, &content, &[], now());
    assert!(other.publish(&list).await.0);
    assert!(client.publish(&Author::new().note(&content)).await.0);
}

/// An event of many tags takes more of the disk than it is long: each of them is in an index.
#[tokio::test]
async fn bytes_of_related_events_are_bounded_by_network_with_their_index() {
    let (node, mut client, _) = start();
    let content = "x".repeat(60_000);
    let references: Vec<String> = (0..450).map(|n| format!("{n:064x}")).collect();
    let tags: Vec<[&str; 2]> = references.iter().map(|id| ["e", id.as_str()]).collect();
    let tags: Vec<&[&str]> = tags.iter().map(<[&str; 2]>::as_slice).collect();
    let mut taken = 0;
    let message = loop {
        let issue = Author::new().event(1_621, &content, &tags, now());
        let (accepted, message) = client.publish(&issue).await;
        if !accepted {
            break message;
        }
        taken += 1;
        assert!(taken < 300, "32 MiB of 135 kB each are less");
    };
    assert!(message.starts_with("rate-limited:"), "{message}");
    assert!(taken > 200, "{taken}");
    let issue = Author::new().event(1_621, &content, &tags, now());
    assert!(node.connect_from("192.0.2.2").publish(&issue).await.0);
}

/// What is not stored takes no disk: it costs nothing where the node failed or has it, and a part where it
/// was refused, so that nobody has that done without end.
#[tokio::test]
async fn bytes_of_events_that_are_not_stored_are_given_back() {
    let (_node, mut client, _) = start();
    let padding = "x".repeat(100_000);
    let tags: [&[&str]; 1] = [&["alt", &padding]];
    let list = |content: &str| Author::new().event(10_317, content, &tags, now());
    for _ in 0..15 {
        let (accepted, message) = client.publish(&list(FAILING)).await;
        assert!(!accepted && message.starts_with("error:"), "{message}");
    }
    let stored = list("");
    assert!(client.publish(&stored).await.0);
    for _ in 0..15 {
        let (accepted, message) = client.publish(&stored).await;
        assert!(accepted && message.starts_with("duplicate:"), "{message}");
    }
    let mut refused = 0;
    let message = loop {
        let (_, message) = client.publish(&list(REFUSED)).await;
        if !message.starts_with("blocked:") {
            break message;
        }
        refused += 1;
    };
    assert!(message.starts_with("rate-limited:"), "{message}");
    assert!((30..40).contains(&refused), "{refused}");
}

/// The source of events that a relay at `ip` sends.
fn relay_at(ip: &str) -> EventSource {
    EventSource {
        network: Some(NetworkPrefixes::default().network(ip.parse().unwrap())),
        ..Origin::Synced.into()
    }
}

async fn admit(node: &Node, event: &Event, source: EventSource) -> Admission {
    let policy: Arc<dyn WritePolicy> = Arc::clone(&node.policy) as _;
    let texts = vec![json!(["EVENT", event]).to_string().into()];
    node.relay.admit(&policy, texts, source).await.remove(0)
}

/// A relay that repositories name may have free keys sign what relates to them without end; whether that waits
/// for data makes no difference.
#[tokio::test]
async fn bytes_of_events_that_are_read_from_relays_are_bounded_by_their_network() {
    for kind in [1_621, DEFERRED.as_u16()] {
        let node = Node::with(Limits {
            synced_bytes: HourlyBytes {
                per_hour: 1 << 20,
                burst: 1 << 20,
            },
            ..unlimited()
        });
        let content = "x".repeat(100_000);
        let event = || Author::new().event(kind, &content, &[], now());
        let mut taken = 0;
        let refused = loop {
            let admission = admit(&node, &event(), relay_at("192.0.2.1")).await;
            if !admission.answer.accepted {
                break admission;
            }
            taken += 1;
            assert!(taken < 12, "1 MiB of 100 kB each are less");
        };
        assert!(refused.is_authentic && refused.is_over_share, "{refused:?}");
        assert_eq!(refused.answer.prefix(), Some("rate-limited"));
        assert!(taken >= 9, "{taken}");
        let other = admit(&node, &event(), relay_at("192.0.2.2")).await;
        assert!(other.answer.accepted && !other.is_over_share, "{other:?}");
        let configured = EventSource {
            is_configured: true,
            ..relay_at("192.0.2.1")
        };
        assert!(admit(&node, &event(), configured).await.answer.accepted);
    }
}
