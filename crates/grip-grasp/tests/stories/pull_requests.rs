//! Pull requests: the event first, git first, and the two at odds.

use grip_testkit::{Author, WorkTree};
use nostr::prelude::Event;

use crate::node::{HELD, ZERO, addr, announce_at, join, later, with_repository};

fn nostr_ref(event: &Event) -> String {
    format!("refs/nostr/{}", event.id.to_hex())
}

#[tokio::test]
async fn g01_43_git_first_then_the_event_is_served_at_once() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, _tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let tip = tree.commit("a", "proposal").unwrap();
    let event = author.pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    let name = nostr_ref(&event);
    let told = node.push(&repo, &tree, &[(ZERO, &tip, &name)]).await;
    told.taken("publish the pull request event before then");
    assert_eq!(
        node.refs(&repo)[&name],
        tip,
        "shown before its event is known"
    );
    assert_eq!(node.waiting(), 1);
    node.accepts(&event, "").await;
    assert!(node.serves(&event));
    assert_eq!(node.refs(&repo)[&name], tip);
    assert_eq!(node.waiting(), 0);
}

#[tokio::test]
async fn g01_48_the_event_first_waits_for_its_tip_and_is_served_with_the_push() {
    let (owner, author, second) = (Author::new(), Author::new(), Author::new());
    let (node, tree, _tip) = with_repository(&owner, "x").await;
    join(&node, &owner, &second).await;
    let tip = tree.commit("a", "proposal").unwrap();
    let event = author.pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    node.accepts(&event, HELD).await;
    node.accepts(&event, "duplicate: in purgatory").await;
    let name = nostr_ref(&event);

    let wrong = tree.commit("a", "not the proposal").unwrap();
    let told = node
        .push(&addr(&owner, "x"), &tree, &[(ZERO, &wrong, &name)])
        .await;
    told.refused("has its tip at");
    assert!(!node.has_object("x", &wrong));

    let told = node
        .push(&addr(&owner, "x"), &tree, &[(ZERO, &tip, &name)])
        .await;
    assert!(told.accepted && node.serves(&event), "{told:?}");
    for repo in [addr(&owner, "x"), addr(&second, "x")] {
        assert_eq!(
            node.refs(&repo)[&name],
            tip,
            "G01-49: in every relevant repository"
        );
    }
    let told = node
        .push(&addr(&owner, "x"), &tree, &[(&tip, ZERO, &name)])
        .await;
    assert!(!told.accepted, "G01-51: {told:?}");
}

#[tokio::test]
async fn g01_48_a_wrong_tip_pushed_ahead_goes_when_the_event_comes() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, base) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let tip = tree.commit("a", "proposal").unwrap();
    let event = author.pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    let name = nostr_ref(&event);
    assert!(
        node.push(&repo, &tree, &[(ZERO, &base, &name)])
            .await
            .accepted
    );
    node.accepts(&event, HELD).await;
    assert!(!node.refs(&repo).contains_key(&name));
    assert_eq!(node.waiting(), 1, "the event alone");
    assert!(
        node.push(&repo, &tree, &[(ZERO, &tip, &name)])
            .await
            .accepted
    );
    assert!(node.serves(&event));
}

#[tokio::test]
async fn g01_48_a_tip_that_is_here_already_needs_no_push() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let event = author.pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    node.accepts(&event, "").await;
    assert_eq!(node.refs(&addr(&owner, "x"))[&nostr_ref(&event)], tip);

    let update = tree.commit("a", "update").unwrap();
    let update = author.pull_request_update(&owner, "x", &event, &update);
    node.accepts(&update, HELD).await;
}

#[tokio::test]
async fn g01_44_only_event_ids_name_refs_below_nostr() {
    let owner = Author::new();
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let told = node
        .push(&addr(&owner, "x"), &tree, &[(ZERO, &tip, "refs/nostr/123")])
        .await;
    told.refused("64 lower-case hex");
}

#[tokio::test]
async fn a_pull_request_to_a_stranger_is_refused() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, _tip) = with_repository(&owner, "x").await;
    let tip = tree.tip("HEAD").unwrap();
    let event = author.pull_request(&author, "y", &tip, "https://elsewhere.example/x.git");
    node.refuses(&event, "blocked: ").await;
    assert_eq!(
        WorkTree::with_commit().unwrap().tip("HEAD").unwrap().len(),
        40
    );
}

/// Found by the model: the request is served while its repository waits for a state again, and its ref
/// has to come back with the repository, whichever way its state comes.
#[tokio::test]
async fn g01_49_a_repository_that_is_served_again_has_the_refs_of_served_pull_requests() {
    let (owner, second) = (Author::new(), Author::new());
    let (node, tree, tip) = with_repository(&owner, "x").await;
    join(&node, &owner, &second).await;
    let request = owner.pull_request(&second, "x", &tip, "https://elsewhere.example/x.git");
    node.accepts(&request, "").await;
    let (name, theirs) = (nostr_ref(&request), addr(&second, "x"));
    assert_eq!(node.refs(&theirs)[&name], tip);
    // No state speaks for the second any more.
    node.accepts(&announce_at(&owner, "x", &[], later(2)), "")
        .await;
    assert!(!node.refs(&theirs).contains_key(&name));
    let state = second.state_at("x", &[("refs/heads/main", &tip)], None, later(3));
    node.accepts(&state, "").await;
    assert_eq!(node.refs(&theirs)[&name], tip);
    node.agrees().await;
    drop(tree);
}
