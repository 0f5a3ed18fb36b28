//! States: held, satisfied, overtaken.

use std::sync::{Arc, Mutex};

use grip_grasp::RepositoryStatus;
use grip_nostr::MaintainerRule;
use grip_tasks::fault;
use grip_testkit::{Author, WorkTree};

use crate::node::{
    HELD, Node, Scene, ZERO, addr, announce, announce_at, elsewhere, later, with_repository,
};

/// What is in `packed-refs` at one moment after the other.
type Seen = Arc<Mutex<Vec<String>>>;

#[tokio::test]
async fn g01_15_a_push_that_satisfies_the_state_serves_state_and_announcement() {
    let (owner, node) = (Author::new(), Node::start().await);
    let repo = addr(&owner, "tide table");
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let announcement = announce(&owner, "tide table", &[]);
    let state = owner.state(
        "tide table",
        &[("refs/heads/main", &tip)],
        Some("refs/heads/main"),
    );

    assert_eq!(node.grasp().repository(&repo), None);
    node.accepts(&announcement, HELD).await;
    assert_eq!(node.grasp().repository(&repo), Some(RepositoryStatus::Held));
    assert!(
        node.refs(&repo).is_empty(),
        "an empty repository is there at once"
    );
    node.accepts(&state, HELD).await;
    assert!(!node.serves(&announcement) && !node.serves(&state));

    let told = node
        .push(&repo, &tree, &[(ZERO, &tip, "refs/heads/main")])
        .await;
    told.taken("");
    assert!(
        told.text.contains("is served") && told.text.contains("tide%20table.git"),
        "{told:?}"
    );
    assert!(node.serves(&announcement) && node.serves(&state));
    assert_eq!(
        node.grasp().repository(&repo),
        Some(RepositoryStatus::Served)
    );
    let refs = node.refs(&repo);
    assert_eq!(refs["refs/heads/main"], tip);
    assert_eq!(refs["HEAD"], "refs/heads/main");
    assert_eq!(node.waiting(), 0);
    assert!(node.fsck_is_clean(&repo).await);
}

#[tokio::test]
async fn g01_16_a_state_whose_objects_are_here_needs_no_push() {
    let owner = Author::new();
    let (node, _tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let refs = [
        ("refs/heads/develop", tip.as_str()),
        ("refs/tags/v1", tip.as_str()),
    ];
    let state = owner.state_at("x", &refs, Some("refs/heads/develop"), later(1));
    node.accepts(&state, "").await;
    assert!(node.serves(&state));
    let refs = node.refs(&repo);
    assert_eq!(refs["HEAD"], "refs/heads/develop");
    assert!(
        !refs.contains_key("refs/heads/main"),
        "the state names it no longer"
    );
    node.accepts(&state, "duplicate: already served").await;
}

#[tokio::test]
async fn g01_38_an_empty_state_takes_all_branches_and_tags_away() {
    let owner = Author::new();
    let (node, _tree, tip) = with_repository(&owner, "x").await;
    let empty = owner.state_at("x", &[], None, later(1));
    node.accepts(&empty, "").await;
    assert!(node.serves(&empty) && node.refs(&addr(&owner, "x")).is_empty());
    assert!(node.has_object("x", &tip), "objects are kept");
}

#[tokio::test]
async fn an_empty_state_does_not_put_a_held_announcement_on_show() {
    let (owner, node) = (Author::new(), Node::start().await);
    let announcement = announce(&owner, "x", &[]);
    node.accepts(&announcement, HELD).await;
    let empty = owner.state("x", &[], None);
    node.accepts(&empty, HELD).await;
    assert!(!node.serves(&announcement) && !node.serves(&empty));
}

#[tokio::test]
async fn a_tie_keeps_what_was_pushed_and_tells_the_loser_to_sign_again() {
    let owner = Author::new();
    let (node, tree, tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let main = ("refs/heads/main", tip.as_str());
    let at = later(5);
    let tagged = owner.state_at("x", &[main, ("refs/tags/v1", &tip)], None, at);
    let plain = owner.state_at("x", &[main, ("refs/tags/v2", &tip)], None, at);
    let (winner, loser) = if tagged.id < plain.id {
        (tagged, plain)
    } else {
        (plain, tagged)
    };
    node.accepts(&winner, "").await;
    node.refuses(&loser, "later created_at").await;
    let tags: Vec<String> = node
        .refs(&repo)
        .into_keys()
        .filter(|n| n.contains("tags"))
        .collect();
    let wanted = winner
        .tags
        .iter()
        .find(|tag| tag.kind().starts_with("refs/tags/"))
        .unwrap();
    assert_eq!(tags, [wanted.kind().to_owned()]);
    let same = [(tip.as_str(), tip.as_str(), wanted.kind())];
    assert!(
        node.push(&repo, &tree, &same).await.accepted,
        "a re-push of what is there is fine"
    );
    assert_eq!(node.refs(&repo).len(), 3);
}

#[tokio::test]
async fn a_12_both_states_of_one_second_wait_and_the_one_that_does_not_count_is_told() {
    let (owner, node) = (Author::new(), Node::start().await);
    node.accepts(&announce(&owner, "x", &[]), HELD).await;
    let at = later(1);
    let one = owner.state_at("x", &[("refs/heads/main", &"1".repeat(40))], None, at);
    let two = owner.state_at("x", &[("refs/heads/main", &"2".repeat(40))], None, at);
    let (low, high) = if one.id < two.id {
        (one, two)
    } else {
        (two, one)
    };
    node.accepts(&low, HELD).await;
    let answer = node.send(&high).await;
    assert!(answer.accepted, "{answer:?}");
    assert!(
        answer.message.starts_with("purgatory: ") && answer.message.contains("later created_at"),
        "{answer:?}"
    );
    assert_eq!(node.grasp().stats().purgatory.states, 2);
}

#[tokio::test]
async fn g01_16_states_are_refused_without_announcement_and_from_strangers() {
    let (owner, stranger, node) = (Author::new(), Author::new(), Node::start().await);
    let refs = [(
        "refs/heads/main",
        "1111111111111111111111111111111111111111",
    )];
    node.refuses(&owner.state("x", &refs, None), "no announcement")
        .await;
    node.accepts(&announce(&owner, "x", &[]), HELD).await;
    node.refuses(&stranger.state("x", &refs, None), "not authorized")
        .await;
}

#[tokio::test]
async fn a_state_that_comes_a_moment_before_its_announcement_is_held() {
    let (owner, node) = (Author::new(), Node::start().await);
    let refs = [(
        "refs/heads/main",
        "1111111111111111111111111111111111111111",
    )];
    let state = owner.state("x", &refs, None);
    let announcement = announce(&owner, "x", &[]);
    let (early, _) = tokio::join!(node.send(&state), node.accepts(&announcement, HELD));
    assert!(early.accepted, "{early:?}");
    assert_eq!(early.message, HELD);
}

#[tokio::test]
async fn g01_26_by_the_legacy_rule_everybody_who_is_listed_moves_the_owners_refs() {
    let (scene, m, r) = (Scene::new().await, Author::new(), Author::new());
    let node = &scene.node;
    node.set_policy(|policy| policy.maintainer_rule = MaintainerRule::Legacy);
    let announcement = announce_at(&scene.owner, "x", &[&m], later(1));
    node.accepts(&announcement, "").await;

    let second = scene.commit("second");
    let state = scene.hold_by(&m, &second, 2).await;
    let told = scene.push_main(&scene.tip, &second).await;
    assert!(told.accepted && node.serves(&state), "{told:?}");

    // M announces elsewhere and lists R only: served, and recursion runs through it.
    let listing = m.sign_at(
        30617,
        "",
        vec![
            vec!["d".into(), "x".into()],
            vec!["maintainers".into(), r.hex()],
        ],
        later(3),
    );
    node.accepts(&listing, "").await;
    assert!(node.serves(&listing));
    assert_eq!(
        node.grasp().repository(&addr(&m, "x")),
        None,
        "no repository for it"
    );

    let root = WorkTree::with_commit().unwrap();
    root.commit("other", "an unrelated root").unwrap();
    let third = root.tip("HEAD").unwrap();
    let state = scene.hold_by(&r, &third, 4).await;
    let push = [(second.as_str(), third.as_str(), "refs/heads/main")];
    let told = node.push(&scene.repo, &root, &push).await;
    assert!(told.accepted && node.serves(&state), "{told:?}");
    assert_eq!(scene.main(), third);
}

#[tokio::test]
async fn g01_17_an_older_state_of_another_maintainer_moves_nothing() {
    let (scene, m) = (Scene::new().await, Author::new());
    let listing = announce_at(&scene.owner, "x", &[&m], later(1));
    scene.node.accepts(&listing, "").await;
    let answer = elsewhere(&m, &[&scene.owner], later(1));
    scene.node.accepts(&answer, "").await;
    let second = scene.commit("second");
    scene.hold(&second, 9).await;
    assert!(scene.push_main(&scene.tip, &second).await.accepted);
    let older = m.state_at("x", &[("refs/heads/main", &scene.tip)], None, later(5));
    scene.node.accepts(&older, "").await;
    assert!(scene.node.serves(&older), "it is a valid event");
    assert_eq!(scene.main(), second);
}

/// Found by the checker of clusters: refs went back to the earlier state for a moment.
#[tokio::test]
async fn g01_17_a_push_that_satisfies_two_states_leaves_refs_at_the_later() {
    let scene = Scene::new().await;
    let (second, third) = (scene.commit("second"), scene.commit("third"));
    let earlier = scene.hold(&second, 1).await;
    let state = scene.hold(&third, 2).await;
    let (repository, seen) = (scene.node.path_of(&scene.repo), Seen::default());
    let look = {
        let seen = Seen::clone(&seen);
        move || {
            let refs = std::fs::read_to_string(repository.join("packed-refs")).unwrap();
            seen.lock().unwrap().push(refs);
        }
    };
    fault::meet("release.refs_aligned", look);
    scene.push_main(&scene.tip, &third).await.taken("");
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    assert!(seen.iter().all(|refs| refs.contains(&third)), "{seen:?}");
    assert!(scene.node.serves(&state) && !scene.node.serves(&earlier));
    assert_eq!((scene.main(), scene.node.waiting()), (third, 0));
}

#[tokio::test]
async fn g01_31_a_dropped_maintainer_loses_the_refs_and_the_held_state() {
    let (scene, m) = (Scene::new().await, Author::new());
    let listing = announce_at(&scene.owner, "x", &[&m], later(1));
    scene.node.accepts(&listing, "").await;
    let answer = elsewhere(&m, &[&scene.owner], later(1));
    scene.node.accepts(&answer, "").await;
    let second = scene.commit("second");
    let state = scene.hold_by(&m, &second, 2).await;
    assert!(scene.push_main(&scene.tip, &second).await.accepted);
    scene.hold_by(&m, &"3".repeat(40), 3).await;

    let dropping = announce_at(&scene.owner, "x", &[], later(4));
    scene.node.accepts(&dropping, "").await;
    assert_eq!(scene.main(), scene.tip, "the owner's state counts again");
    assert_eq!(scene.node.waiting(), 0);
    assert!(scene.node.serves(&state));
}
