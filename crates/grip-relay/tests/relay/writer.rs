//! The writer: group commits, failures, and saves from outside.

use grip_relay::{Limits, WriteError};
use grip_store::{EventView, Put};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn an_event_at_fault_takes_no_other_with_it() {
    let (node, mut client, author) = start();
    let contents = ["one", FAILING, "two", PANICKING, "three", REFUSED];
    let events: Vec<_> = contents
        .iter()
        .map(|content| author.note(content))
        .collect();
    for event in &events {
        client.event(event).await;
    }
    for (event, content) in events.iter().zip(contents) {
        let (accepted, message) = client.ok(event).await;
        match content {
            FAILING | PANICKING => assert!(!accepted && message.starts_with("error:"), "{message}"),
            REFUSED => assert!(!accepted && message.starts_with("blocked:")),
            _ => assert!(accepted, "{message}"),
        }
    }
    assert_eq!(node.store.stats().unwrap().events, 3);
    assert!(node.relay.stats().commits_failed.get() >= 2);
}

#[tokio::test]
async fn when_everything_fails_everybody_is_told() {
    let (_node, mut client, author) = start();
    let events: Vec<_> = (0..50)
        .map(|n| author.event(1, FAILING, &[], now() - n))
        .collect();
    for event in &events {
        client.event(event).await;
    }
    for event in &events {
        assert!(client.ok(event).await.1.starts_with("error:"));
    }
}

#[tokio::test]
async fn relay_9_1_a_save_is_durable_and_atomic_when_it_returns() {
    let node = Node::start();
    let author = Author::new();
    let (first, second) = (author.note("first"), author.note("second"));
    let puts = node
        .writer
        .save(vec![first.clone(), second.clone()])
        .await
        .unwrap();
    assert!(puts.iter().all(|put| matches!(put, Put::Stored { .. })));
    let again = node.writer.save(vec![first.clone()]).await.unwrap();
    assert_eq!(again, [Put::Duplicate]);

    // An ephemeral event cannot be stored, so nothing of its list is.
    let (third, ephemeral) = (author.note("third"), author.event(20_000, "", &[], now()));
    let refused = node.writer.save(vec![third.clone(), ephemeral]).await;
    assert!(matches!(refused, Err(WriteError::Store(_))), "{refused:?}");
    let view = node.store.read().unwrap();
    assert!(view.contains(&second.id).unwrap() && !view.contains(&third.id).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_are_shared_by_connections() {
    let node = Node::start();
    let mut clients: Vec<_> = (0..16).map(|_| node.connect()).collect();
    let author = Author::new();
    for round in 0..20 {
        for (n, client) in clients.iter().enumerate() {
            client.event(&author.note(&format!("{round} {n}"))).await;
        }
    }
    for client in &mut clients {
        for _ in 0..20 {
            assert_eq!(client.next().await[2], true);
        }
    }
    let stats = node.relay.stats();
    assert_eq!(stats.committed_events.get(), 320);
    assert!(stats.commits.get() < 320, "{} commits", stats.commits.get());
    assert_eq!(
        stats.commit_sizes().map(|(_, n)| n).sum::<u64>(),
        stats.commits.get()
    );
    assert_eq!(stats.events_accepted.get(), 320);
}

#[tokio::test]
async fn a_flood_from_one_connection_is_slowed_down_and_not_refused() {
    let node = Node::with(Limits {
        in_flight_events: 4,
        in_flight_bytes: 4_096,
        write_queue: 1,
        ..unlimited()
    });
    let mut client = node.connect();
    let author = Author::new();
    let events: Vec<_> = (0..100)
        .map(|n| author.note(&format!("{n} {}", "x".repeat(1_500))))
        .collect();
    for event in &events {
        client.event(event).await;
    }
    for event in &events {
        assert!(client.ok(event).await.0);
    }
}

#[tokio::test]
async fn after_the_stop_writes_are_refused_in_words() {
    let (node, mut client, author) = start();
    assert!(client.publish(&author.note("before")).await.0);
    node.relay.stop().await;
    let (accepted, message) = client.publish(&author.note("after")).await;
    assert!(!accepted && message.starts_with("error:"), "{message}");
    assert!(matches!(
        node.writer.save(Vec::new()).await,
        Err(WriteError::Stopped)
    ));
    node.relay.stop().await;
    assert_eq!(
        client.request("s", json!({})).await.len(),
        1,
        "reading goes on"
    );
}

#[tokio::test]
async fn a_writer_that_was_stopped_has_not_failed() {
    let node = Node::start();
    let failed = node.writer.failed();
    tokio::pin!(failed);
    assert!(futures_util::poll!(&mut failed).is_pending());
    node.relay.stop().await;
    assert!(futures_util::poll!(&mut failed).is_pending());
}
