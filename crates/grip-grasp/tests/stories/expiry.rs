//! Expiry of what waits too long.

use std::time::Duration;

use grip_grasp::{Millis, RepositoryStatus};
use grip_nostr::Timestamp;
use grip_tasks::fault;
use grip_testkit::{Author, events::tag};

use crate::node::{HELD, Scene, ZERO, addr, announce, later, with_repository};

pub(crate) fn in_minutes(minutes: u64) -> Millis {
    Millis::from(Timestamp::now()) + Duration::from_secs(minutes * 60 + 30)
}

/// Found by the model: the repository was archived with the ref, and came back with it.
#[tokio::test]
async fn g01_47_a_ref_whose_time_is_over_with_its_repository_does_not_come_back() {
    let (owner, second) = (Author::new(), Author::new());
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&second, "x");
    node.accepts(&announce(&second, "x", &[]), HELD).await;
    let name = format!("refs/nostr/{}", "ab".repeat(32));
    node.push(&repo, &tree, &[(ZERO, &tip, &name)])
        .await
        .taken("");
    node.grasp().sweep(in_minutes(31)).await;
    assert_eq!(node.grasp().repository(&repo), None);
    assert_eq!(node.archived(&second), 0);
    let state = second.state("x", &[("refs/heads/main", &"1".repeat(40))], None);
    node.accepts(&state, HELD).await;
    assert!(node.refs(&repo).is_empty());
}

#[tokio::test]
async fn g01_47_a_ref_without_its_event_goes_after_twenty_minutes_and_not_later() {
    let owner = Author::new();
    let (mut node, tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let name = format!("refs/nostr/{}", "ab".repeat(32));
    assert!(
        node.push(&repo, &tree, &[(ZERO, &tip, &name)])
            .await
            .accepted
    );
    node.restart().await;
    assert_eq!(node.grasp().sweep(in_minutes(19)).await.refs, 0);
    assert!(node.refs(&repo).contains_key(&name));
    assert_eq!(node.grasp().sweep(in_minutes(20)).await.refs, 1);
    assert!(!node.refs(&repo).contains_key(&name));
    assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
    node.agrees().await;
}

#[tokio::test]
async fn a_hidden_announcement_is_served_by_a_state_whose_data_a_sibling_brought() {
    let (owner, other) = (Author::new(), Author::new());
    let (node, _tree, tip) = with_repository(&owner, "x").await;
    let announcement = announce(&other, "x", &[]);
    node.accepts(&announcement, HELD).await;
    assert_eq!(node.grasp().sweep(in_minutes(30)).await.repositories, 1);
    assert_eq!(node.grasp().repository(&addr(&other, "x")), None);
    let state = other.state("x", &[("refs/heads/main", &tip)], None);
    node.accepts(&state, "").await;
    assert!(node.serves(&state) && node.serves(&announcement));
    assert_eq!(node.refs(&addr(&other, "x"))["refs/heads/main"], tip);
}

#[tokio::test]
async fn g01_113_refs_that_no_event_names_do_not_come_back_from_the_archive() {
    let (owner, other) = (Author::new(), Author::new());
    // The objects of the first are in the store; those of the second are staged.
    let (node, tree, tip) = with_repository(&other, "x").await;
    let repo = addr(&owner, "x");
    let announcement = announce(&owner, "x", &[]);
    node.accepts(&announcement, HELD).await;
    let name = format!("refs/nostr/{}", "ab".repeat(32));
    let staged = format!("refs/nostr/{}", "cd".repeat(32));
    let proposal = tree.commit("a", "proposal").unwrap();
    let push = [
        (ZERO, tip.as_str(), name.as_str()),
        (ZERO, &proposal, &staged),
    ];
    assert!(node.push(&repo, &tree, &push).await.accepted);
    let elsewhere = owner.announcement_at("other.example.com", "x", vec![], later(1));
    node.refuses(&elsewhere, "blocked: ").await;
    assert_eq!(
        node.grasp().sweep(in_minutes(20)).await.refs,
        0,
        "its repository is archived"
    );
    assert_eq!(node.waiting(), 0);
    node.accepts(&crate::node::announce_at(&owner, "x", &[], later(2)), HELD)
        .await;
    assert_eq!(node.grasp().repository(&repo), Some(RepositoryStatus::Held));
    assert!(node.refs(&repo).is_empty());
    assert_eq!(node.staged_bytes(), 0);
    assert_eq!(node.grasp().stats().purgatory.placeholders, 0);
}

/// Found by the model: its time was over between the move of the refs and the store.
#[tokio::test]
async fn a_state_that_expires_while_it_is_released_moves_no_ref() {
    moves_no_ref_if_it_expires_at("release.refs_aligned").await;
}

/// Found by the model: its time was over between the push that moved the refs and its release.
#[tokio::test]
async fn a_state_that_expires_before_it_is_released_moves_no_ref() {
    moves_no_ref_if_it_expires_at("push.refs_updated").await;
}

async fn moves_no_ref_if_it_expires_at(point: &'static str) {
    let scene = Scene::new().await;
    let next = scene.commit("next");
    let end = later(2);
    let tags = vec![
        tag(["d", "x"]),
        tag(["refs/heads/main", &next]),
        tag(["expiration", &end.as_secs().to_string()]),
    ];
    let state = scene.owner.sign_at(30618, "", tags, later(1));
    scene.node.accepts(&state, HELD).await;
    fault::meet(point, move || {
        while Timestamp::now() < end {
            std::thread::yield_now();
        }
    });
    scene.push_main(&scene.tip, &next).await;
    assert!(!scene.node.serves(&state));
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}
