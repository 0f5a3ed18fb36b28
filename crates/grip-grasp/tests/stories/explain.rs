//! `explain` says why.

use grip_grasp::Status;
use grip_testkit::Author;

use crate::node::{HELD, Node, ZERO, addr, announce_at, later, with_repository};

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
    for named in [&id[..], &id[..8]] {
        let explained = node.grasp().explain(named).await.unwrap();
        assert_eq!(explained.status, Status::Awaited, "{named}");
        assert!(explained.deadline.is_some());
    }
}

/// A later version has replaced one announcement, and a rule has taken that one out of service.
#[tokio::test]
async fn events_that_are_kept_are_explained_to_the_operator_alone() {
    let owner = Author::new();
    let (mut node, _tree, _tip) = with_repository(&owner, "x").await;
    let [replaced, served] = [1, 2].map(|at| announce_at(&owner, "x", &[], later(at)));
    node.accepts(&replaced, "").await;
    node.accepts(&served, "").await;
    let status = async |node: &Node, event: &grip_nostr::Event, reader: &str| {
        let id = event.id.to_hex();
        let mut found = Vec::new();
        for named in [&id[..], &id[..8]] {
            let explained = match reader {
                "operator" => node.grasp().explain_to_operator(named).await,
                _ => node.grasp().explain(named).await,
            };
            let explained = explained.unwrap();
            found.push((explained.status, explained.deadline.is_some()));
        }
        assert_eq!(found[0], found[1], "{id}");
        found[0]
    };
    assert_eq!(
        status(&node, &replaced, "operator").await,
        (Status::Kept, false)
    );
    assert_eq!(
        status(&node, &replaced, "anybody").await,
        (Status::Unknown, false)
    );
    assert_eq!(
        status(&node, &served, "operator").await,
        (Status::Served, false)
    );
    node.restart_with_blacklist("x").await;
    grip_testkit::until("it is taken out of service", || async {
        (!node.serves(&served)).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(
        status(&node, &served, "operator").await,
        (Status::Kept, true)
    );
    assert_eq!(
        status(&node, &served, "anybody").await,
        (Status::Unknown, false)
    );
}

#[tokio::test]
async fn nonsense_is_answered_kindly() {
    let node = Node::start().await;
    let explained = node.grasp().explain("what?").await.unwrap();
    assert_eq!(explained.status, Status::Unknown);
    assert!(explained.summary.contains("npub/identifier"));
}
