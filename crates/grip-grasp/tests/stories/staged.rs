//! Uploads to `refs/nostr/<event-id>` that no event names (§5c).

use grip_git::StagingBudgets;
use grip_nostr::RepoAddr;
use grip_testkit::{Author, wire};
use nostr::prelude::Event;

use crate::{
    expiry::in_minutes,
    node::{HELD, Scene, Told, ZERO, addr, join},
};

/// A repository with a maintainer's beside it, and a commit that nobody has signed.
struct Proposal {
    scene: Scene,
    sibling: RepoAddr,
    author: Author,
    tip: String,
    event: Event,
    name: String,
}

impl Proposal {
    async fn new() -> Self {
        let scene = Scene::new().await;
        let second = Author::new();
        join(&scene.node, &scene.owner, &second).await;
        let author = Author::new();
        let tip = scene.commit("proposal");
        let event = author.pull_request(&scene.owner, "x", &tip, "https://elsewhere.example/x.git");
        Self {
            name: format!("refs/nostr/{}", event.id.to_hex()),
            sibling: addr(&second, "x"),
            scene,
            author,
            tip,
            event,
        }
    }

    /// Pushes the tip under the name of its event, from an address.
    async fn push_from(&self, client: &str) -> Told {
        let scene = &self.scene;
        let command = [(ZERO, self.tip.as_str(), self.name.as_str())];
        let mut body = wire::commands(&command, wire::CAPABILITIES);
        let pack = wire::pack(&scene.tree, &self.tip, Some(&scene.tip)).await;
        body.extend(pack.unwrap());
        let node = &scene.node;
        node.push_bytes_from(Some(client), &scene.repo, body).await
    }
}

#[tokio::test]
async fn g01_90_a_staged_upload_is_seen_in_the_receiving_repository_alone() {
    let proposal = Proposal::new().await;
    let (node, repo) = (&proposal.scene.node, &proposal.scene.repo);
    let packs = node.pack_files("x");
    proposal
        .push_from("192.0.2.1")
        .await
        .taken("stored for 20 minutes");
    assert_eq!(node.refs(repo)[&proposal.name], proposal.tip);
    assert!(!node.refs(&proposal.sibling).contains_key(&proposal.name));
    assert!(node.can_read(repo, &proposal.tip) && !node.can_read(&proposal.sibling, &proposal.tip));
    assert!(!node.has_object("x", &proposal.tip));
    assert_eq!(node.pack_files("x"), packs);
    assert!(node.fsck_is_clean(repo).await);

    // It counts as present for nothing: neither for a state nor for another pull request.
    let state = proposal.scene.hold(&proposal.tip, 5).await;
    assert!(!node.serves(&state));
    let owner = &proposal.scene.owner;
    let other = proposal
        .author
        .pull_request(owner, "x", &proposal.tip, "https://b.example/x.git");
    node.accepts(&other, HELD).await;
}

#[tokio::test]
async fn g01_92_the_event_promotes_its_upload() {
    let proposal = Proposal::new().await;
    let (node, repo) = (&proposal.scene.node, &proposal.scene.repo);
    proposal.push_from("192.0.2.1").await.taken("");
    node.accepts(&proposal.event, "").await;
    assert!(node.serves(&proposal.event));
    for repo in [repo, &proposal.sibling] {
        assert_eq!(node.refs(repo)[&proposal.name], proposal.tip);
        assert!(node.can_read(repo, &proposal.tip));
        assert!(node.fsck_is_clean(repo).await);
    }
    assert!(node.has_object("x", &proposal.tip));
    assert_eq!((node.staged_bytes(), node.waiting()), (0, 0));
}

#[tokio::test]
async fn g01_93_an_event_with_another_tip_removes_the_upload_with_its_bytes() {
    let proposal = Proposal::new().await;
    let (node, repo) = (&proposal.scene.node, &proposal.scene.repo);
    let wrong = proposal.scene.commit("something else");
    let mut body = wire::commands(&[(ZERO, &wrong, &proposal.name)], wire::CAPABILITIES);
    let pack = wire::pack(&proposal.scene.tree, &wrong, Some(&proposal.scene.tip)).await;
    body.extend(pack.unwrap());
    node.push_bytes(repo, body).await.taken("");
    assert!(node.staged_bytes() > 0);
    node.accepts(&proposal.event, HELD).await;
    assert!(!node.refs(repo).contains_key(&proposal.name));
    assert!(!node.can_read(repo, &wrong));
    assert_eq!(node.staged_bytes(), 0);
}

#[tokio::test]
async fn g01_94_an_upload_is_kept_over_a_restart_and_reclaimed_when_its_time_is_over() {
    let mut proposal = Proposal::new().await;
    proposal.push_from("192.0.2.1").await.taken("");
    let bytes = proposal.scene.node.staged_bytes();
    proposal.scene.node.cut().await;
    let (node, repo) = (&proposal.scene.node, &proposal.scene.repo);
    assert_eq!(node.staged_bytes(), bytes);
    assert_eq!(node.grasp().sweep(in_minutes(19)).await.refs, 0);
    assert!(node.can_read(repo, &proposal.tip));
    assert_eq!(node.grasp().sweep(in_minutes(20)).await.refs, 1);
    assert!(!node.can_read(repo, &proposal.tip));
    assert_eq!((node.staged_bytes(), node.waiting()), (0, 0));
    assert!(node.fsck_is_clean(repo).await);
    proposal.scene.node.agrees().await;
}

#[tokio::test]
async fn g01_98_a_full_budget_is_named_and_hinders_nobody_else() {
    let mut proposal = Proposal::new().await;
    // Room for one such upload from an address.
    proposal.push_from("192.0.2.1").await.taken("");
    let bytes = proposal.scene.node.staged_bytes();
    let staging = StagingBudgets {
        per_address: bytes + bytes / 2,
        per_identifier: 64 * bytes,
        ..StagingBudgets::default()
    };
    proposal.scene.node.restart_with(staging).await;
    let again = |digits: &str, content: &str| {
        let tip = proposal.scene.commit(content);
        let name = format!("refs/nostr/{}", digits.repeat(32));
        (tip, name)
    };
    let push = async |client: &str, (tip, name): &(String, String)| {
        let scene = &proposal.scene;
        let mut body = wire::commands(&[(ZERO, tip, name)], wire::CAPABILITIES);
        let pack = wire::pack(&scene.tree, tip, Some(&scene.tip)).await;
        body.extend(pack.unwrap());
        let node = &scene.node;
        node.push_bytes_from(Some(client), &scene.repo, body).await
    };
    let second = again("cd", "second");
    push("192.0.2.1", &second)
        .await
        .refused("uploads from your address");
    assert_eq!(proposal.scene.node.staged_bytes(), bytes);
    push("192.0.2.2", &second).await.taken("");
    let third = again("ef", "third");
    push("192.0.2.2", &third)
        .await
        .refused("uploads from your address");
    assert!(!proposal.scene.node.can_read(&proposal.scene.repo, &third.0));
    assert_eq!(
        proposal.scene.node.waiting(),
        2,
        "refused ones wait for nothing"
    );

    // The owner pushes as ever, and an event makes room.
    let (next, state) = proposal.scene.hold_next().await;
    let main = proposal.scene.push_main(&proposal.scene.tip, &next).await;
    main.taken("");
    assert!(proposal.scene.node.serves(&state));
    proposal.scene.node.accepts(&proposal.event, "").await;
    push("192.0.2.3", &third).await.taken("");
    proposal.scene.node.agrees().await;
}

#[tokio::test]
async fn a_staged_ref_is_pushed_again_by_clients_that_were_not_shown_it() {
    let proposal = Proposal::new().await;
    let (node, repo) = (&proposal.scene.node, &proposal.scene.repo);
    proposal.push_from("192.0.2.1").await.taken("");
    let bytes = node.staged_bytes();
    proposal.push_from("192.0.2.1").await.taken("");
    assert_eq!(node.staged_bytes(), bytes, "the same bytes count once");
    let next = proposal.scene.commit("a better proposal");
    let mut body = wire::commands(&[(ZERO, &next, &proposal.name)], wire::CAPABILITIES);
    let pack = wire::pack(&proposal.scene.tree, &next, Some(&proposal.scene.tip)).await;
    body.extend(pack.unwrap());
    // First come: nobody takes the place of what waits for its event.
    let over = node.push_bytes(repo, body.clone()).await;
    over.refused("publish the event first");
    assert_eq!(node.refs(repo)[&proposal.name], proposal.tip);
    assert_eq!(node.staged_bytes(), bytes);
    node.accepts(&proposal.event, "").await;
    node.push_bytes(repo, body).await.refused("has its tip at");
    assert!(node.fsck_is_clean(repo).await);
}

#[tokio::test]
async fn a_push_of_a_branch_and_a_proposal_is_divided() {
    let proposal = Proposal::new().await;
    let scene = &proposal.scene;
    scene
        .tree
        .git(["reset", "-q", "--hard", &scene.tip])
        .unwrap();
    let (next, state) = scene.hold_next().await;
    let commands = [
        (scene.tip.as_str(), next.as_str(), "refs/heads/main"),
        (ZERO, proposal.tip.as_str(), proposal.name.as_str()),
    ];
    scene.push(&commands).await.taken("");
    assert!(scene.node.serves(&state) && scene.node.has_object("x", &next));
    assert!(!scene.node.has_object("x", &proposal.tip));
    assert!(scene.node.can_read(&scene.repo, &proposal.tip));
    scene.node.accepts(&proposal.event, "").await;
    assert!(scene.node.can_read(&proposal.sibling, &proposal.tip));
    assert!(scene.node.fsck_is_clean(&scene.repo).await);
}
