//! Wanted data is looked for by the queue's clock, at least every hour (G02-2).

use std::time::Duration;

use grip_grasp::{AttemptEnd, SyncContext as _};
use grip_queue::{Filter, JobFacts, NewJob, Queue};
use grip_testkit::{Author, until};

use crate::{
    node::{HELD, Node, later},
    sync::{MAIN, fetch, fetched, in_minutes, wanting, x},
};

const HOUR_MS: i64 = 3_600_000;

fn queue(node: &Node) -> Queue {
    Queue::new(node.db().clone())
}

async fn rows(node: &Node) -> Vec<JobFacts> {
    let all = Filter::default();
    queue(node).list(&all, 100).await.unwrap()
}

/// Waits until somebody has asked for an attempt, and begins it.
async fn begun(node: &Node) {
    let begun = until("an attempt is asked for", || {
        std::future::ready(node.grasp().begin_sync())
    });
    assert_eq!(begun.await.unwrap(), x());
}

/// Waits until the row waits again, and says when it is due.
async fn waits(node: &Node) -> i64 {
    let waits = until("the row waits", || async {
        let rows = rows(node).await;
        let row = rows.iter().find(|row| row.holder.is_none())?;
        row.due_ms.filter(|due| *due > node.db().now_ms())
    });
    waits.await.unwrap()
}

#[tokio::test]
async fn what_is_wanted_has_a_row_that_is_due_within_the_hour() {
    let (node, _tree, state, _next) = wanting(&Author::new()).await;
    let rows = rows(&node).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].kind.as_str(), rows[0].key.as_str()),
        ("wanted", "x")
    );
    assert_eq!(rows[0].period_ms, Some(HOUR_MS));
    let due = rows[0].due_ms.unwrap();
    assert!(due <= node.db().now_ms() + HOUR_MS);
    // Nothing is scheduled beside it, and everybody is told the same time.
    assert_eq!(node.grasp().next_sync(), None);
    let told = node.grasp().explain(&state.id.to_hex()).await.unwrap();
    assert_eq!(told.next_attempt, Some(due));
    assert_eq!(
        node.grasp().sync_entry(&x()).unwrap().next_attempt.get(),
        due
    );
}

#[tokio::test]
async fn g02_2_an_attempt_is_made_every_hour_until_the_data_is_here() {
    let (node, tree, state, next) = wanting(&Author::new()).await;
    let _worker = node.grasp().look_for_wanted(node.group());
    for attempts in 1..=2 {
        node.db().shift_clock_ms(HOUR_MS);
        let at = node.db().now_ms();
        begun(&node).await;
        let retry = AttemptEnd::Retry(Duration::from_secs(20));
        node.grasp().finish_sync(&x(), retry).await;
        let due = waits(&node).await;
        assert!((at..=at + HOUR_MS + 60_000).contains(&due), "{at} {due}");
        let entry = node.grasp().sync_entry(&x()).unwrap();
        assert_eq!(entry.attempt_count, attempts);
    }
    node.db().shift_clock_ms(HOUR_MS);
    begun(&node).await;
    fetch(&node, &tree, &next).await;
    assert_eq!(fetched(&node).await.events, [state.id]);
    node.grasp().finish_sync(&x(), AttemptEnd::Complete).await;
    until("the row is gone", || async {
        rows(&node).await.is_empty().then_some(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn while_something_is_held_the_row_asks_for_nothing() {
    let owner = Author::new();
    let (node, _tree, _state, _next) = wanting(&owner).await;
    let other = Author::new();
    let request = other.pull_request(&owner, "x", &"7".repeat(40), "https://fork.example/x.git");
    node.accepts(&request, HELD).await;
    let _worker = node.grasp().look_for_wanted(node.group());
    node.db().shift_clock_ms(HOUR_MS);
    waits(&node).await;
    assert_eq!(node.grasp().begin_sync(), None, "its own time has not come");
}

#[tokio::test]
async fn the_row_goes_with_what_is_wanted() {
    let owner = Author::new();
    let (node, _tree, _state, _next) = wanting(&owner).await;
    let newer = owner.state_at("x", &[(MAIN, &"3".repeat(40))], None, later(9));
    node.accepts(&newer, HELD).await;
    assert!(rows(&node).await.is_empty());
    // And comes back with the next one.
    assert_eq!(node.grasp().sweep(in_minutes(31)).await.events, 1);
    assert_eq!(rows(&node).await.len(), 1);
}

#[tokio::test]
async fn a_start_brings_the_rows_in_step() {
    let (mut node, _tree, _state, _next) = wanting(&Author::new()).await;
    assert!(queue(&node).remove("wanted", "x").await.unwrap());
    let stray = vec![NewJob::new("wanted", "stray"), NewJob::new("else", "stray")];
    queue(&node).enqueue(stray).await.unwrap();
    node.restart().await;
    let rows = rows(&node).await;
    let named: Vec<_> = rows.iter().map(|row| (&*row.kind, &*row.key)).collect();
    assert_eq!(named, [("else", "stray"), ("wanted", "x")]);
    assert!(rows[1].due_ms.unwrap() <= node.db().now_ms() + HOUR_MS);
    // A second start changes nothing.
    node.restart().await;
    assert_eq!(self::rows(&node).await, rows);
}

#[tokio::test]
async fn a_row_for_nothing_is_removed_by_its_worker() {
    let (node, _tree, _state, _next) = wanting(&Author::new()).await;
    for key in ["nothing", "..", "a/b"] {
        queue(&node)
            .enqueue(vec![
                NewJob::new("wanted", key).every(Duration::from_secs(60)),
            ])
            .await
            .unwrap();
    }
    let _worker = node.grasp().look_for_wanted(node.group());
    until("only the true one is left", || async {
        let rows = rows(&node).await;
        (rows.len() == 1 && rows[0].key == "x").then_some(())
    })
    .await
    .unwrap();
}
