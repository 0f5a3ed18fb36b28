//! Deletions reach into purgatory and into git.

use grip_testkit::Author;

use crate::node::{HELD, Node, addr, announce, announce_at, join, later, with_repository};

#[tokio::test]
async fn g01_54_a_deleted_held_state_no_longer_authorises() {
    let owner = Author::new();
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let next = tree.commit("a", "next").unwrap();
    let push = [(tip.as_str(), next.as_str(), "refs/heads/main")];
    for by_address in [false, true] {
        let at = later(1 + u64::from(by_address));
        let state = owner.state_at("x", &[("refs/heads/main", &next)], None, at);
        node.accepts(&state, HELD).await;
        let deletion = if by_address {
            let tags = vec![vec!["a".into(), format!("30618:{}:x", owner.hex())]];
            owner.sign_at(5, "", tags, later(9))
        } else {
            owner.delete_events(&[state.id])
        };
        node.accepts(&deletion, "").await;
        // The address covers the served version too: its announcement waits again (G01-105).
        assert_eq!(node.waiting(), usize::from(by_address));
        let told = node.push(&repo, &tree, &push).await;
        told.refused("");
        node.refuses(&state, "deletion request").await;
    }
    assert!(!node.has_object("x", &next));
}

#[tokio::test]
async fn a_stranger_deletes_nothing_that_is_held() {
    let (owner, stranger, node) = (Author::new(), Author::new(), Node::start().await);
    node.accepts(&announce(&owner, "x", &[]), HELD).await;
    let state = owner.state("x", &[("refs/heads/main", &"1".repeat(40))], None);
    node.accepts(&state, HELD).await;
    node.accepts(&stranger.delete_events(&[state.id]), "").await;
    assert_eq!(node.waiting(), 2);
}

#[tokio::test]
async fn g01_56_a_deleted_held_announcement_leaves_nothing() {
    let (owner, node) = (Author::new(), Node::start().await);
    let announcement = announce(&owner, "x", &[]);
    node.accepts(&announcement, HELD).await;
    let state = owner.state("x", &[("refs/heads/main", &"1".repeat(40))], None);
    node.accepts(&state, HELD).await;
    node.accepts(&owner.delete_events(&[announcement.id]), "")
        .await;
    assert_eq!(node.grasp().repository(&addr(&owner, "x")), None);
    assert_eq!(node.waiting(), 0);
}

#[tokio::test]
async fn g01_57_a_deleted_repository_is_gone_at_once_and_comes_back_with_its_owner() {
    let (owner, second) = (Author::new(), Author::new());
    let (mut node, _tree, tip) = with_repository(&owner, "x").await;
    join(&node, &owner, &second).await;
    // What only the owner's state proves would go with the owner.
    let own = second.state("x", &[("refs/heads/main", &tip)], None);
    node.accepts(&own, "").await;
    let ending = vec![vec!["a".into(), format!("30617:{}:x", owner.hex())]];
    node.accepts(&owner.sign_at(5, "", ending, later(2)), "")
        .await;
    let repo = addr(&owner, "x");
    assert_eq!(node.grasp().repository(&repo), None);
    assert_eq!(
        node.refs(&addr(&second, "x"))["refs/heads/main"],
        tip,
        "another owner's stays"
    );
    node.restart().await;
    assert_eq!(node.grasp().repository(&repo), None);
    let back = announce_at(&owner, "x", &[], later(5));
    node.accepts(&back, "").await;
    assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
    node.agrees().await;
}

#[tokio::test]
async fn g01_57_a_deleted_pull_request_takes_its_ref_along() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, _tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let event = author.pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    node.accepts(&event, "").await;
    let name = format!("refs/nostr/{}", event.id.to_hex());
    assert!(node.refs(&repo).contains_key(&name));
    node.accepts(&author.delete_events(&[event.id]), "").await;
    assert!(!node.serves(&event) && !node.refs(&repo).contains_key(&name));
}
