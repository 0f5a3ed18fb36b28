//! A restart between every two steps loses nothing that was acknowledged.

use grip_grasp::RepositoryStatus;
use grip_testkit::{Author, WorkTree};

use crate::node::{HELD, Node, Scene, ZERO, addr, announce, later, with_repository};

#[tokio::test]
async fn g01_21_every_step_of_a_first_push_survives_a_restart() {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let repo = addr(&owner, "x");
    let tree = WorkTree::with_commit().unwrap();
    let one = tree.tip("HEAD").unwrap();
    let two = tree.commit("a", "two").unwrap();
    let announcement = announce(&owner, "x", &[]);
    node.accepts(&announcement, HELD).await;
    node.restart().await;
    assert_eq!(node.grasp().repository(&repo), Some(RepositoryStatus::Held));
    let refs = [
        ("refs/heads/main", one.as_str()),
        ("refs/heads/next", two.as_str()),
    ];
    let state = owner.state("x", &refs, Some("refs/heads/next"));
    node.accepts(&state, HELD).await;
    node.restart().await;
    node.accepts(&state, "duplicate: in purgatory").await;
    assert!(
        node.push(&repo, &tree, &[(ZERO, &one, "refs/heads/main")])
            .await
            .accepted
    );
    node.restart().await;
    assert!(!node.serves(&state));
    assert!(
        node.push(&repo, &tree, &[(ZERO, &two, "refs/heads/next")])
            .await
            .accepted
    );
    node.restart().await;
    assert!(node.serves(&state) && node.serves(&announcement));
    assert_eq!(
        node.grasp().repository(&repo),
        Some(RepositoryStatus::Served)
    );
    assert_eq!(node.refs(&repo)["HEAD"], "refs/heads/next");
    assert_eq!(node.waiting(), 0);
    assert!(node.fsck_is_clean(&repo).await);
    node.agrees().await;
}

#[tokio::test]
async fn g01_21_both_orders_of_a_pull_request_survive_a_restart() {
    let (owner, author) = (Author::new(), Author::new());
    let (mut node, tree, _tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let one = tree.commit("a", "one").unwrap();
    let two = tree.commit("b", "two").unwrap();
    let git_first = author.pull_request(&owner, "x", &one, "https://elsewhere.example/x.git");
    let event_first = author.pull_request(&owner, "x", &two, "https://elsewhere.example/x.git");
    let name = |event: &nostr::prelude::Event| format!("refs/nostr/{}", event.id.to_hex());
    assert!(
        node.push(&repo, &tree, &[(ZERO, &one, &name(&git_first))])
            .await
            .accepted
    );
    node.accepts(&event_first, HELD).await;
    node.restart().await;
    assert_eq!(node.waiting(), 2);
    node.accepts(&git_first, "").await;
    assert!(
        node.push(&repo, &tree, &[(ZERO, &two, &name(&event_first))])
            .await
            .accepted
    );
    node.restart().await;
    assert!(node.serves(&git_first) && node.serves(&event_first));
    assert_eq!(node.refs(&repo)[&name(&git_first)], one);
    assert_eq!(node.refs(&repo)[&name(&event_first)], two);
    node.agrees().await;
}

#[tokio::test]
async fn a_served_repository_is_served_after_a_restart_and_takes_pushes() {
    let owner = Author::new();
    let (mut node, tree, tip) = with_repository(&owner, "x").await;
    node.restart().await;
    let next = tree.commit("a", "next").unwrap();
    let state = owner.state_at("x", &[("refs/heads/main", &next)], None, later(1));
    node.accepts(&state, HELD).await;
    let push = [(tip.as_str(), next.as_str(), "refs/heads/main")];
    assert!(node.push(&addr(&owner, "x"), &tree, &push).await.accepted);
    assert!(node.serves(&state));
    node.agrees().await;
}

#[tokio::test]
async fn data_that_came_before_a_crash_is_released_by_the_start() {
    let owner = Author::new();
    let (mut node, tree, tip) = with_repository(&owner, "x").await;
    let next = tree.commit("a", "next").unwrap();
    let state = owner.state_at("x", &[("refs/heads/main", &next)], None, later(1));
    node.accepts(&state, HELD).await;
    // The objects come under another name, that of a pull request. What counts is that they are here
    // and that an event names them.
    let request = owner.pull_request(&owner, "x", &next, "https://elsewhere.example/x.git");
    node.accepts(&request, HELD).await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    assert!(
        node.push(&addr(&owner, "x"), &tree, &[(ZERO, &next, &name)])
            .await
            .accepted
    );
    assert!(
        node.serves(&state),
        "any way the objects come releases the state"
    );
    assert_eq!(node.refs(&addr(&owner, "x"))["refs/heads/main"], next);
    node.restart().await;
    assert_ne!(tip, next);
    assert_eq!(node.refs(&addr(&owner, "x"))["refs/heads/main"], next);
    node.agrees().await;
}

#[tokio::test]
async fn what_cannot_be_journalled_is_neither_held_nor_acknowledged() {
    let owner = Author::new();
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    node.close_journal().await;
    let state = owner.state_at("x", &[("refs/heads/main", &"1".repeat(40))], None, later(1));
    node.refuses(&state, "error: ").await;
    node.refuses(&announce(&owner, "y", &[]), "error: ").await;
    assert_eq!(node.waiting(), 0);
    assert_eq!(node.grasp().repository(&addr(&owner, "y")), None);
    let other = tree.commit("a", "other").unwrap();
    let event = owner.pull_request(&owner, "x", &other, "https://elsewhere.example/x.git");
    node.refuses(&event, "error: ").await;
    let name = format!("refs/nostr/{}", event.id.to_hex());
    let told = node.push(&repo, &tree, &[(ZERO, &other, &name)]).await;
    told.refused("journal");
    assert!(!node.has_object("x", &other) && node.waiting() == 0);
    assert_eq!(node.refs(&repo)["refs/heads/main"], tip);
}

#[tokio::test]
async fn a_repository_of_nobody_is_archived_and_one_taken_over_is_kept() {
    let (owner, other) = (Author::new(), Author::new());
    let mut node = Node::start().await;
    node.put_repository(&addr(&owner, "old"));
    node.start_again(|| {}).await;
    assert!(
        node.is_on_disk(&addr(&owner, "old")),
        "no events yet: they may still come"
    );
    assert_eq!(node.grasp().repository(&addr(&owner, "old")), None);
    node.accepts(&announce(&owner, "old", &[]), HELD).await;
    assert_eq!(
        node.grasp().repository(&addr(&owner, "old")),
        Some(RepositoryStatus::Held)
    );

    let (mut node, _tree, _tip) = with_repository(&other, "x").await;
    node.put_repository(&addr(&owner, "stray"));
    node.start_again(|| {}).await;
    assert!(!node.is_on_disk(&addr(&owner, "stray")));
    assert!(node.is_on_disk(&addr(&other, "x")));
    node.agrees().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_cut_short_at_any_moment_is_finished_and_loses_nothing_acknowledged() {
    let mut node = Node::start().await;
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    for n in 0..40 {
        let (owner, name) = (Author::new(), format!("r{n}"));
        let repo = addr(&owner, &name);
        let announcement = announce(&owner, &name, &[]);
        let state = owner.state(&name, &[("refs/heads/main", &tip)], Some("refs/heads/main"));
        let push = [(ZERO, tip.as_str(), "refs/heads/main")];
        let (mut announced, mut stated, mut pushed) = (false, false, false);
        let flow = async {
            node.accepts(&announcement, HELD).await;
            announced = true;
            node.accepts(&state, HELD).await;
            stated = true;
            pushed = node.push(&repo, &tree, &push).await.accepted;
        };
        let moment = std::time::Duration::from_micros(2_000 * n);
        let _ = tokio::time::timeout(moment, flow).await;
        node.cut().await;

        let announcement_is_known = node.serves(&announcement) || node.holds(&announcement).await;
        assert!(!announced || announcement_is_known, "round {n}");
        let state_is_known = node.serves(&state) || node.holds(&state).await;
        assert!(!stated || state_is_known, "round {n}");
        assert!(!pushed || node.serves(&state), "round {n}");
        assert_eq!(
            node.serves(&state),
            node.serves(&announcement),
            "round {n}: in one commit"
        );
        if node.serves(&state) {
            assert!(node.has_object(&name, &tip), "round {n}");
            assert_eq!(node.refs(&repo)["refs/heads/main"], tip, "round {n}");
        }

        // A client without an answer sends again, and all ends well.
        assert!(node.send(&announcement).await.accepted);
        assert!(node.send(&state).await.accepted);
        let old = node.refs(&repo).get("refs/heads/main").cloned();
        let again = [(
            old.as_deref().unwrap_or(ZERO),
            tip.as_str(),
            "refs/heads/main",
        )];
        let told = node.push(&repo, &tree, &again).await;
        assert!(told.accepted, "round {n}: {told:?}");
        assert!(
            node.serves(&state) && node.serves(&announcement),
            "round {n}"
        );
        assert_eq!(node.waiting(), 0, "round {n}");
        node.agrees().await;
    }
}

#[tokio::test]
async fn a_change_of_nothing_costs_no_commit() {
    let node = Node::start().await;
    let before = node.db().writer_stats().commits_total;
    let unknown = grip_types::Identifier::parse("unknown").unwrap();
    assert!(!node.grasp().sync_now(&unknown).await);
    assert_eq!(node.db().writer_stats().commits_total, before);
}

/// Found by the model: the request was acknowledged, and dropped by the next start.
#[tokio::test]
async fn g01_48_a_waiting_pull_request_outlasts_the_last_state_of_its_repository_and_a_restart() {
    let mut scene = Scene::new().await;
    let (author, tip) = (Author::new(), scene.commit("proposal"));
    let url = "https://elsewhere.example/x.git";
    let request = author.pull_request(&scene.owner, "x", &tip, url);
    scene.node.accepts(&request, HELD).await;
    let deletion = scene.owner.delete_address(30618, "x");
    scene.node.accepts(&deletion, "").await;
    assert!(scene.node.holds(&request).await);
    scene.node.restart().await;
    assert!(scene.node.holds(&request).await);

    // And it is served with its repository.
    let (next, _) = scene.hold_next().await;
    scene.push_main(ZERO, &next).await.taken("");
    assert!(scene.node.serves(&request));
    scene.node.agrees().await;
}
