//! Announcements: who gets a repository, and when.

use grip_grasp::RepositoryStatus;
use grip_testkit::{Author, WorkTree};

use crate::node::{HELD, Node, ZERO, addr, announce, announce_at, join, later, with_repository};

#[tokio::test]
async fn g01_14_a_new_version_of_a_served_announcement_is_served_at_once() {
    let owner = Author::new();
    let (node, _tree, _tip) = with_repository(&owner, "x").await;
    let newer = announce_at(&owner, "x", &[], later(5));
    node.accepts(&newer, "").await;
    assert!(node.serves(&newer));
    assert_eq!(node.waiting(), 0);
}

#[tokio::test]
async fn g01_15a_a_second_owner_of_known_data_is_served_at_once_and_aligned() {
    let (owner, second) = (Author::new(), Author::new());
    let (node, _tree, tip) = with_repository(&owner, "x").await;
    let announcement = join(&node, &owner, &second).await;
    let repo = addr(&second, "x");
    assert!(node.serves(&announcement));
    assert_eq!(
        node.grasp().repository(&repo),
        Some(RepositoryStatus::Served)
    );
    assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
}

#[tokio::test]
async fn g01_36_a_push_to_one_owner_aligns_every_sibling() {
    let (owner, m) = (Author::new(), Author::new());
    let node = Node::start().await;
    node.accepts(&announce(&owner, "x", &[&m]), HELD).await;
    node.accepts(&announce(&m, "x", &[&owner]), HELD).await;
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let state = m.state("x", &[("refs/heads/main", &tip)], Some("refs/heads/main"));
    node.accepts(&state, HELD).await;
    let push = [(ZERO, tip.as_str(), "refs/heads/main")];
    assert!(node.push(&addr(&owner, "x"), &tree, &push).await.accepted);
    for repo in [addr(&owner, "x"), addr(&m, "x")] {
        assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
        assert_eq!(node.refs(&repo)["HEAD"], "refs/heads/main");
        assert_eq!(
            node.grasp().repository(&repo),
            Some(RepositoryStatus::Served)
        );
    }
    assert_eq!(node.waiting(), 0);
}

#[tokio::test]
async fn g01_18_an_owner_who_leaves_before_the_first_push_leaves_nothing() {
    let (owner, node) = (Author::new(), Node::start().await);
    node.accepts(&announce(&owner, "x", &[]), HELD).await;
    let state = owner.state("x", &[("refs/heads/main", &"1".repeat(40))], None);
    node.accepts(&state, HELD).await;
    let elsewhere = owner.announcement_at("other.example.com", "x", vec![], later(5));
    node.refuses(&elsewhere, "blocked: ").await;
    assert_eq!(node.grasp().repository(&addr(&owner, "x")), None);
    assert_eq!(node.waiting(), 0);
}

#[tokio::test]
async fn g01_15a_an_owner_who_leaves_later_keeps_a_read_only_repository_for_a_while() {
    let owner = Author::new();
    let (mut node, tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let elsewhere = owner.announcement_at("other.example.com", "x", vec![], later(5));
    node.refuses(&elsewhere, "blocked: ").await;
    node.restart().await;
    assert_eq!(
        node.grasp().repository(&repo),
        Some(RepositoryStatus::Served)
    );
    let again = [(tip.as_str(), tip.as_str(), "refs/heads/main")];
    let told = node.push(&repo, &tree, &again).await;
    told.refused("read-only");

    let day = std::time::Duration::from_secs(25 * 3600);
    let then = grip_grasp::Millis::from(grip_nostr::Timestamp::now()) + day;
    assert_eq!(node.grasp().sweep(then).await.withdrawn, 1);
    assert_eq!(node.grasp().repository(&repo), None);

    let back = announce_at(&owner, "x", &[], later(9));
    node.accepts(&back, "").await;
    assert_eq!(
        node.refs(&repo)["refs/heads/main"],
        tip,
        "the archive gave it back"
    );
    node.agrees().await;
}

#[tokio::test]
async fn g01_2_an_announcement_that_does_not_list_us_is_refused() {
    let (owner, node) = (Author::new(), Node::start().await);
    let elsewhere = owner.announcement("other.example.com", "x", vec![]);
    node.refuses(&elsewhere, "must list this service").await;
    assert_eq!(node.grasp().repository(&addr(&owner, "x")), None);
}
