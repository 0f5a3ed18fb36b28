//! Objects that nothing needs any more leave the disk.

use std::time::Duration;

use grip_grasp::{Millis, WaitingStatus};
use grip_nostr::{Event, Timestamp};
use grip_testkit::{Author, WorkTree, wire};

use crate::node::{HELD, Node, addr, announce, later, with_repository};

const MAIN: &str = "refs/heads/main";
const NOWHERE: &str = "00000000000000000000000000000000000000aa";

fn in_days(days: u64) -> Millis {
    Millis::from(Timestamp::now()) + Duration::from_secs(days * 24 * 3600 + 60)
}

/// Puts a commit with all it reaches where a fetch would.
async fn fetch(node: &Node, tree: &WorkTree, tip: &str) {
    let pack = wire::pack(tree, tip, None).await.unwrap();
    node.receive("x", pack).await.promote().unwrap();
}

/// An announcement with a state that can never be complete, half of which was fetched.
async fn half_fetched(owner: &Author) -> (Node, WorkTree, Event, String) {
    let node = Node::start().await;
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    node.accepts(&announce(owner, "x", &[]), HELD).await;
    let refs = [(MAIN, tip.as_str()), ("refs/heads/other", NOWHERE)];
    let state = owner.state("x", &refs, None);
    node.accepts(&state, HELD).await;
    fetch(&node, &tree, &tip).await;
    (node, tree, state, tip)
}

#[tokio::test]
async fn objects_of_a_state_that_never_completes_go_with_the_last_that_wants_them() {
    let owner = Author::new();
    let (mut node, tree, _state, tip) = half_fetched(&owner).await;
    assert_eq!(node.grasp().sweep(in_days(0)).await.stores, 0);
    let swept = node.grasp().sweep(in_days(1)).await;
    assert_eq!((swept.events, swept.stores), (1, 0), "it is wanted");
    node.restart().await;
    assert!(node.has_object("x", &tip));
    // The node sweeps by itself as well, so who removes the store is left to chance.
    for days in [15, 29, 31, 62] {
        node.grasp().sweep(in_days(days)).await;
    }
    assert_eq!(node.grasp().stats().purgatory.wanted, 0);
    assert!(!node.has_object("x", &tip) && !node.has_store("x"));

    // An owner who comes back finds everything as on the first day.
    let state = owner.state_at("x", &[(MAIN, &tip)], None, later(2));
    node.accepts(&crate::node::announce_at(&owner, "x", &[], later(1)), HELD)
        .await;
    node.accepts(&state, HELD).await;
    let push = [(crate::node::ZERO, tip.as_str(), MAIN)];
    assert!(node.push(&addr(&owner, "x"), &tree, &push).await.accepted);
    assert!(node.serves(&state));
    node.agrees().await;
}

#[tokio::test]
async fn objects_go_when_an_operator_drops_the_last_that_waits() {
    let owner = Author::new();
    let (node, _tree, _state, tip) = half_fetched(&owner).await;
    for facts in node.grasp().waiting(10).await.unwrap() {
        assert_eq!(facts.status, WaitingStatus::Held);
        assert_eq!(node.grasp().sweep(in_days(0)).await.stores, 0);
        let id = facts.id.parse().unwrap();
        assert!(node.grasp().drop_waiting(&id).await.unwrap());
    }
    assert_eq!(node.grasp().sweep(in_days(0)).await.stores, 1);
    assert!(!node.has_object("x", &tip));
}

#[tokio::test]
async fn objects_that_come_after_the_end_go_as_well_but_not_before_they_are_in() {
    let (node, tree) = (Node::start().await, WorkTree::with_commit().unwrap());
    let tip = tree.tip("HEAD").unwrap();
    let pack = wire::pack(&tree, &tip, None).await.unwrap();
    let under_way = node.receive("x", pack).await;
    assert_eq!(node.grasp().sweep(in_days(0)).await.stores, 0);
    under_way.promote().unwrap();
    assert!(node.has_object("x", &tip));
    assert_eq!(node.grasp().sweep(in_days(0)).await.stores, 1);
    assert!(!node.has_store("x"));
}

#[tokio::test]
async fn objects_of_nobody_go_at_the_start() {
    let (mut node, tree) = (Node::start().await, WorkTree::with_commit().unwrap());
    fetch(&node, &tree, &tree.tip("HEAD").unwrap()).await;
    assert!(node.has_store("x"));
    node.restart().await;
    assert!(!node.has_store("x"));
    node.agrees().await;
}

#[tokio::test]
async fn objects_stay_for_what_is_served_for_other_owners_and_for_the_archive() {
    let (owner, other) = (Author::new(), Author::new());
    let (mut node, _tree, tip) = with_repository(&owner, "x").await;
    let theirs = announce(&other, "x", &[]);
    node.accepts(&theirs, HELD).await;
    assert!(node.grasp().drop_waiting(&theirs.id).await.unwrap());
    assert_eq!(node.grasp().sweep(in_days(0)).await.stores, 0);
    let gone = owner.announcement_at("other.example.com", "x", vec![], later(1));
    node.send(&gone).await;
    for days in [0, 2, 40] {
        assert_eq!(node.grasp().sweep(in_days(days)).await.stores, 0);
    }
    assert!(!node.is_on_disk(&addr(&owner, "x")), "it is archived");
    node.restart().await;
    assert_eq!(node.grasp().sweep(in_days(40)).await.stores, 0);
    assert!(node.has_object("x", &tip));
    node.agrees().await;
}

#[tokio::test]
async fn objects_of_a_repository_taken_over_wait_for_its_events() {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    node.put_repository(&addr(&owner, "x"));
    fetch(&node, &tree, &tip).await;
    node.start_again(|| {}).await;
    assert_eq!(node.grasp().sweep(in_days(0)).await.stores, 0);
    assert!(node.is_on_disk(&addr(&owner, "x")) && node.has_object("x", &tip));
    // Announced by nobody as yet, and named as such.
    node.ends_in_disagreement();
}
