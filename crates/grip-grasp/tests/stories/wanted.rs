//! Wanted data is looked for at least every hour (G02-2).

use std::time::Duration;

use grip_grasp::{AttemptEnd, SyncContext as _};
use grip_queue::{Filter, NewJob, Queue};
use grip_testkit::Author;

use crate::{
    node::{HELD, Node},
    sync::{fetch, fetched, wanting, x},
};

const HOUR: Duration = Duration::from_secs(3600);

fn next_attempt(node: &Node) -> i64 {
    let entry = node.grasp().sync_entry(&x()).unwrap();
    entry.next_attempt.get()
}

/// Makes an attempt now that brings nothing.
async fn try_in_vain(node: &Node) {
    assert!(node.grasp().sync_now(&x()).await);
    assert_eq!(node.grasp().begin_sync().due(), Some(x()));
    let retry = AttemptEnd::Retry(Duration::from_secs(20));
    node.grasp().finish_sync(&x(), retry).await;
}

#[tokio::test]
async fn what_is_wanted_is_due_within_the_hour_and_everybody_is_told_the_same_time() {
    let (node, _tree, state, _next) = wanting(&Author::new()).await;
    let due = next_attempt(&node);
    assert!(due <= (node.grasp().now() + HOUR).get());
    assert_eq!(node.grasp().next_sync().unwrap().get(), due);
    let told = node.grasp().explain(&state.id.to_hex()).await.unwrap();
    assert_eq!(told.next_attempt, Some(due));
}

#[tokio::test]
async fn g02_2_an_attempt_is_made_every_hour_until_the_data_is_here() {
    let (mut node, tree, state, next) = wanting(&Author::new()).await;
    for attempts in 1..=2 {
        let before = node.grasp().now() + HOUR;
        try_in_vain(&node).await;
        let due = next_attempt(&node);
        let latest = node.grasp().now() + HOUR;
        assert!((before.get()..=latest.get()).contains(&due));
        let entry = node.grasp().sync_entry(&x()).unwrap();
        assert_eq!(entry.attempt_count, attempts);
        node.restart().await;
        assert_eq!(next_attempt(&node), due, "a restart changes nothing");
    }
    assert!(node.grasp().sync_now(&x()).await);
    assert_eq!(node.grasp().begin_sync().due(), Some(x()));
    fetch(&node, &tree, &next).await;
    assert_eq!(fetched(&node).await.events, [state.id]);
    node.grasp().finish_sync(&x(), AttemptEnd::Complete).await;
    assert_eq!(node.grasp().sync_queue_len(), 0);
    node.agrees().await;
}

#[tokio::test]
async fn while_something_is_held_beside_it_the_next_attempt_comes_sooner() {
    let owner = Author::new();
    let (node, _tree, _state, _next) = wanting(&owner).await;
    try_in_vain(&node).await;
    let hourly = next_attempt(&node);
    let other = Author::new();
    let request = other.pull_request(&owner, "x", &"7".repeat(40), "https://fork.example/x.git");
    node.accepts(&request, HELD).await;
    assert!(next_attempt(&node) < hourly);
}

#[tokio::test]
async fn a_start_removes_the_jobs_by_which_older_versions_looked_for_wanted_data() {
    let (mut node, _tree, _state, _next) = wanting(&Author::new()).await;
    let queue = Queue::new(node.db().clone());
    let jobs = ["wanted", "else"].map(|kind| NewJob::new(kind, "x"));
    queue.enqueue(jobs.to_vec()).await.unwrap();
    let due = next_attempt(&node);
    node.restart().await;
    let queue = Queue::new(node.db().clone());
    let left = queue.list(&Filter::default(), 100).await.unwrap();
    let kinds: Vec<_> = left.iter().map(|job| job.kind.as_str()).collect();
    assert_eq!(kinds, ["else"]);
    assert_eq!(next_attempt(&node), due);
    node.agrees().await;
}
