//! Notices of moved tags, and of repositories that come and go.

use grip_tasks::{ChangeSet, Changed};
use grip_testkit::{Author, within};
use grip_types::RepoAddr;

use crate::{
    node::{HELD, Node, ZERO, addr, announce, announce_at, later, with_repository},
    sync::MAIN,
};

async fn next(changes: &ChangeSet<RepoAddr>) -> Changed<RepoAddr> {
    within("a change is told", changes.next()).await.unwrap()
}

#[tokio::test]
async fn a_repository_is_told_when_it_is_served_and_when_a_tag_moves() {
    let owner = Author::new();
    let repo = addr(&owner, "x");
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let changes = node.grasp().changes();
    assert_eq!(changes.take(), None, "only from now on");
    assert_eq!(node.grasp().served(), std::slice::from_ref(&repo));

    // A branch is nothing to tell of.
    let next_tip = tree.commit("a", "next").unwrap();
    let branch = owner.state_at("x", &[(MAIN, &next_tip)], None, later(1));
    node.accepts(&branch, HELD).await;
    let push = [(tip.as_str(), next_tip.as_str(), MAIN)];
    assert!(node.push(&repo, &tree, &push).await.accepted);
    assert_eq!(changes.take(), None);

    let refs = [(MAIN, next_tip.as_str()), ("refs/tags/v1.0.0", &tip)];
    let tagged = owner.state_at("x", &refs, None, later(2));
    assert!(node.send(&tagged).await.accepted);
    assert_eq!(next(&changes).await, Changed::These(vec![repo.clone()]));

    // Gone with its owner, after a while in which it can be read.
    let elsewhere = owner.announcement_at("other.example.com", "x", vec![], later(5));
    node.refuses(&elsewhere, "blocked: ").await;
    assert_eq!(changes.take(), None);
    let day = std::time::Duration::from_secs(25 * 3600);
    let then = grip_grasp::Millis::from(grip_nostr::Timestamp::now()) + day;
    assert_eq!(node.grasp().sweep(then).await.withdrawn, 1);
    assert_eq!(next(&changes).await, Changed::These(vec![repo]));
    assert!(node.grasp().served().is_empty());
}

#[tokio::test]
async fn claims_are_what_is_served_and_told_whenever_they_change() {
    let owner = Author::new();
    let repo = addr(&owner, "x");
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let grasp = node.grasp();
    let first = grasp.repository_events(&repo).await.unwrap().unwrap();
    assert_eq!(first.announcement.pubkey, owner.keys.public_key());
    let first_state = first.state.unwrap();
    let changes = grasp.repository_event_changes();

    // What waits for its data is no claim yet.
    let next_tip = tree.commit("a", "next").unwrap();
    let state = owner.state_at("x", &[(MAIN, &next_tip)], None, later(1));
    node.accepts(&state, HELD).await;
    assert_eq!(changes.take(), None);
    let held = grasp.repository_events(&repo).await.unwrap().unwrap();
    assert_eq!(held.state, Some(first_state));
    let push = [(tip.as_str(), next_tip.as_str(), MAIN)];
    assert!(node.push(&repo, &tree, &push).await.accepted);
    let told = Changed::These(vec![repo.clone()]);
    assert_eq!(next(&changes).await, told, "a branch is enough");
    let now = grasp.repository_events(&repo).await.unwrap().unwrap();
    assert_eq!(now.state, Some(state));

    let joined = announce_at(&owner, "x", &[&Author::new()], later(2));
    assert!(node.send(&joined).await.accepted);
    assert_eq!(next(&changes).await, told);
    let now = grasp.repository_events(&repo).await.unwrap().unwrap();
    assert_eq!(now.announcement, joined);

    let stranger = addr(&Author::new(), "x");
    assert_eq!(grasp.repository_events(&stranger).await.unwrap(), None);
}

#[tokio::test]
async fn a_new_repository_is_told_with_its_first_data() {
    let owner = Author::new();
    let node = Node::start().await;
    let changes = node.grasp().changes();
    node.accepts(&announce(&owner, "x", &[]), HELD).await;
    assert_eq!(changes.take(), None, "it is not served yet");
    let tree = grip_testkit::WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    node.accepts(&owner.state("x", &[(MAIN, &tip)], None), HELD)
        .await;
    let repo = addr(&owner, "x");
    assert!(
        node.push(&repo, &tree, &[(ZERO, &tip, MAIN)])
            .await
            .accepted
    );
    assert_eq!(next(&changes).await, Changed::These(vec![repo]));
}
