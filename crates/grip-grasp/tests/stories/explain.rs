//! `explain` says why.

use grip_grasp::Status;
use grip_testkit::Author;

use crate::node::{HELD, Node, ZERO, addr, later, with_repository};

#[tokio::test]
async fn held_served_refused_and_unknown_are_told_apart() {
    let (owner, stranger) = (Author::new(), Author::new());
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let next = tree.commit("a", "next").unwrap();
    let refs = [
        ("refs/heads/main", next.as_str()),
        ("refs/tags/v1", tip.as_str()),
    ];
    let held = owner.state_at("x", &refs, None, later(1));
    node.accepts(&held, HELD).await;
    let explained = node.grasp().explain(&held.id.to_hex()).await.unwrap();
    assert_eq!(explained.status, Status::Held);
    assert_eq!(explained.missing_total, 1);
    assert_eq!(explained.missing[0].oid.to_string(), next);
    assert!(explained.deadline.is_some() && !explained.chain.is_empty());

    let refused = stranger.state("x", &refs, None);
    node.refuses(&refused, "not authorized").await;
    let explained = node.grasp().explain(&refused.id.to_hex()).await.unwrap();
    assert_eq!(explained.status, Status::Refused);
    assert!(
        explained
            .chain
            .iter()
            .any(|step| step.starts_with("G01-16 5")),
        "{explained:?}"
    );

    let push = [(tip.as_str(), next.as_str(), "refs/heads/main")];
    assert!(node.push(&addr(&owner, "x"), &tree, &push).await.accepted);
    let explained = node.grasp().explain(&held.id.to_hex()).await.unwrap();
    assert_eq!(explained.status, Status::Served);

    let unknown = node.grasp().explain(&"ef".repeat(32)).await.unwrap();
    assert_eq!(unknown.status, Status::Unknown);
}

#[tokio::test]
async fn a_repository_is_explained_with_its_refs_and_refused_pushes() {
    let owner = Author::new();
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let unsigned = tree.commit("a", "unsigned").unwrap();
    let push = [(tip.as_str(), unsigned.as_str(), "refs/heads/main")];
    assert!(!node.push(&addr(&owner, "x"), &tree, &push).await.accepted);
    let explained = node
        .grasp()
        .explain(&addr(&owner, "x").to_string())
        .await
        .unwrap();
    assert_eq!(explained.status, Status::Served);
    let repository = explained.repository.unwrap();
    assert_eq!((repository.branches, repository.tags), (1, 0));
    assert_eq!(repository.maintainers, [owner.npub()]);
    assert!(repository.state.is_some() && repository.head.is_some());
    assert_eq!(explained.refusals.len(), 1);
    assert_eq!(node.grasp().stats().refused["push"], 1);
}

#[tokio::test]
async fn a_ref_pushed_ahead_of_its_event_is_awaited() {
    let owner = Author::new();
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let id = "ab".repeat(32);
    let name = format!("refs/nostr/{id}");
    assert!(
        node.push(&addr(&owner, "x"), &tree, &[(ZERO, &tip, &name)])
            .await
            .accepted
    );
    let explained = node.grasp().explain(&id).await.unwrap();
    assert_eq!(explained.status, Status::Awaited);
    assert!(explained.deadline.is_some());
}

#[tokio::test]
async fn nonsense_is_answered_kindly() {
    let node = Node::start().await;
    let explained = node.grasp().explain("what?").await.unwrap();
    assert_eq!(explained.status, Status::Unknown);
    assert!(explained.summary.contains("npub/identifier"));
}
