//! Announcements: who gets a repository, and when.

use grip_grasp::RepositoryStatus;
use grip_testkit::Author;

use crate::node::{addr, announce_at, join, later, with_repository};

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
