//! NIP-77: relay.md §7.

use std::{collections::BTreeSet, time::Duration};

use grip_nostr::Event;
use grip_relay::Limits;
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use serde_json::{Value, json};

use crate::support::*;

fn storage<'e>(events: impl IntoIterator<Item = &'e Event>) -> NegentropyStorageVector {
    let mut storage = NegentropyStorageVector::new();
    for event in events {
        let id = Id::from_byte_array(event.id.to_bytes());
        storage.insert(event.created_at.as_secs(), id).unwrap();
    }
    storage.seal().unwrap();
    storage
}

fn hex(bytes: &[u8]) -> String {
    faster_hex::hex_string(bytes)
}

fn ids<'e>(events: impl IntoIterator<Item = &'e Event>) -> BTreeSet<[u8; 32]> {
    events
        .into_iter()
        .map(|event| event.id.to_bytes())
        .collect()
}

/// Runs the whole exchange; returns what the client has and what it needs.
async fn reconcile(
    client: &mut Client,
    own: &NegentropyStorageVector,
) -> (BTreeSet<[u8; 32]>, BTreeSet<[u8; 32]>) {
    let mut side = Negentropy::borrowed(own, 8_192).unwrap();
    let (mut have, mut need) = (Vec::new(), Vec::new());
    let first = side.initiate().unwrap();
    client
        .send(json!(["NEG-OPEN", "n", {"kinds": [1]}, hex(&first)]))
        .await;
    loop {
        let answer = client.next().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("NEG-MSG"), &json!("n")));
        let mut message = vec![0; answer[2].as_str().unwrap().len() / 2];
        faster_hex::hex_decode(answer[2].as_str().unwrap().as_bytes(), &mut message).unwrap();
        match side
            .reconcile_with_ids(&message, &mut have, &mut need)
            .unwrap()
        {
            Some(next) => client.send(json!(["NEG-MSG", "n", hex(&next)])).await,
            None => break,
        }
    }
    client.send(json!(["NEG-CLOSE", "n"])).await;
    let plain = |ids: Vec<Id>| ids.into_iter().map(|id| *id).collect();
    (plain(have), plain(need))
}

#[tokio::test]
async fn relay_7_both_sides_learn_what_they_lack() {
    let node = Node::start();
    let author = Author::new();
    let events: Vec<Event> = (0..2_000)
        .map(|n| author.event(1, "", &[], now() - n))
        .collect();
    node.writer.save(events[100..].to_vec()).await.unwrap();
    let other_kind = author.event(2, "not asked for", &[], now());
    node.writer.save(vec![other_kind]).await.unwrap();
    let mut client = node.connect();
    let (have, need) = reconcile(&mut client, &storage(&events[..1_500])).await;
    assert_eq!(have, ids(&events[..100]));
    assert_eq!(need, ids(&events[1_500..]));
    client.expect_silence().await;
    assert_eq!(node.relay.stats().reconciliations.get(), 0);
}

async fn open(client: &mut Client, sub: &str) -> Value {
    client
        .send(json!(["NEG-OPEN", sub, {}, "6100000200"]))
        .await;
    client.next().await
}

#[tokio::test]
async fn relay_7_malformed_messages_close_the_exchange_and_not_the_connection() {
    let node = Node::start();
    let mut client = node.connect();
    for bad in [
        "",
        "zz",
        "61ff",
        "610000028000",
        "6100000299",
        "6101000001000000",
    ] {
        assert_eq!(open(&mut client, "n").await[0], "NEG-MSG");
        client.send(json!(["NEG-MSG", "n", bad])).await;
        let answer = client.next().await;
        assert_eq!(
            (&answer[0], &answer[1]),
            (&json!("NEG-ERR"), &json!("n")),
            "{bad}"
        );
        assert!(
            answer[2].as_str().unwrap().starts_with("invalid:"),
            "{bad}: {answer}"
        );
        client.send(json!(["NEG-MSG", "n", "61"])).await;
        let answer = client.next().await;
        assert!(
            answer[2].as_str().unwrap().starts_with("closed:"),
            "{answer}"
        );
    }
    // Another version is answered with ours.
    client.send(json!(["NEG-OPEN", "n", {}, "62"])).await;
    assert_eq!(client.next().await, json!(["NEG-MSG", "n", "61"]));
}

#[tokio::test]
async fn relay_7_exchanges_are_bounded_in_number_and_size() {
    let node = Node::with(Limits {
        reconciliation_records: 10,
        reconciliation_records_total: 100,
        ..unlimited()
    });
    let author = Author::new();
    let notes: Vec<_> = (0..9)
        .map(|n| author.event(1, "", &[], now() - n))
        .collect();
    node.writer.save(notes).await.unwrap();
    let mut client = node.connect();
    assert_eq!(open(&mut client, "0").await[0], "NEG-MSG");
    let answer = open(&mut client, "1").await;
    assert!(
        answer[2].as_str().unwrap().starts_with("rate-limited:"),
        "the pool is used up"
    );
    assert_eq!(
        open(&mut client, "0").await[0],
        "NEG-MSG",
        "reopening gives back the old one's share"
    );
    client.send(json!(["NEG-CLOSE", "0"])).await;
    let more: Vec<_> = (0..2)
        .map(|n| author.event(1, "", &[], now() - 50 - n))
        .collect();
    node.writer.save(more).await.unwrap();
    assert_eq!(
        open(&mut client, "2").await[2],
        "blocked: this query is too big"
    );

    let empty = json!({"kinds": []});
    for n in 0..10 {
        client
            .send(json!(["NEG-OPEN", n.to_string(), empty, "61"]))
            .await;
        assert_eq!(client.next().await[0], "NEG-MSG");
    }
    client
        .send(json!(["NEG-OPEN", "eleventh", empty, "61"]))
        .await;
    assert_eq!(client.next().await[0], "NEG-ERR");
    assert_eq!(node.relay.stats().reconciliations.get(), 10);
    client.hang_up();
    client.ended().await;
    assert_eq!(node.relay.stats().reconciliations.get(), 0);
}

#[tokio::test]
async fn one_network_takes_its_share_of_the_records_and_leaves_the_rest_to_others() {
    let node = Node::with(Limits {
        reconciliation_records_total: 90,
        ..unlimited()
    });
    let author = Author::new();
    let notes = (0..5).map(|n| author.event(1, "", &[], now() - n));
    node.writer.save(notes.collect()).await.unwrap();
    let (mut one, mut another) = (node.connect(), node.connect());
    assert_eq!(open(&mut one, "0").await[0], "NEG-MSG");
    assert_eq!(open(&mut one, "1").await[0], "NEG-MSG");
    for client in [&mut one, &mut another] {
        let refused = open(client, "2").await;
        let reason = refused[2].as_str().unwrap();
        assert!(reason.starts_with("rate-limited:"), "{refused}");
    }
    let mut elsewhere = node.connect_from("192.0.2.2");
    assert_eq!(open(&mut elsewhere, "0").await[0], "NEG-MSG");
}

#[tokio::test]
async fn relay_7_the_set_is_the_one_of_the_opening() {
    let node = Node::start();
    let author = Author::new();
    let mut client = node.connect();
    assert_eq!(open(&mut client, "n").await[0], "NEG-MSG");
    client.publish(&author.note("late")).await;
    client.send(json!(["NEG-MSG", "n", "6100000200"])).await;
    // To infinity, a list of no ids.
    assert_eq!(client.next().await, json!(["NEG-MSG", "n", "6100000200"]));
}

#[tokio::test]
async fn relay_7_an_exchange_that_rests_is_closed() {
    let node = Node::with(Limits {
        reconciliation_idle: Duration::from_millis(50),
        ..unlimited()
    });
    let mut client = node.connect();
    assert_eq!(open(&mut client, "n").await[0], "NEG-MSG");
    let answer = client.next().await;
    assert_eq!((&answer[0], &answer[1]), (&json!("NEG-ERR"), &json!("n")));
    assert!(answer[2].as_str().unwrap().starts_with("closed:"));
}

#[tokio::test]
async fn a_refused_opening_closes_the_exchange_of_its_id() {
    let (_node, mut client, _) = start();
    client.send(json!(["NEG-OPEN", "n", {}, "61"])).await;
    let first = client.next().await;
    client
        .send(json!(["NEG-OPEN", "n", {"search": "x"}, "61"]))
        .await;
    let refused = client.next().await;
    assert_eq!(refused[0], "NEG-ERR", "{first} {refused}");
    client.send(json!(["NEG-MSG", "n", "61"])).await;
    let unknown = client.next().await;
    assert_eq!(unknown[0], "NEG-ERR");
    let reason = unknown[2].as_str().unwrap();
    assert!(reason.starts_with("closed:"), "{reason}");
}
