//! Unreachable objects leave the disk after their grace time, and nothing else does.

use std::time::{Duration, SystemTime};

use grip_git::Collected;
use grip_testkit::Author;
use grip_types::Identifier;

use crate::node::{HELD, Scene, ZERO, announce, later};

const NOWHERE: &str = "00000000000000000000000000000000000000aa";

fn in_days(days: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(days * 24 * 3600 + 60)
}

async fn collect(scene: &Scene, days: u64) -> Collected {
    let identifier = Identifier::parse("x").unwrap();
    scene.node.grasp().collect(&identifier, in_days(days)).await
}

/// The owner's branch at its second commit, then moved back to the first by a state, and the state
/// between deleted, so that its author cannot return to it (G01-104).
async fn moved_back() -> (Scene, String) {
    let scene = Scene::new().await;
    let (second, state) = scene.hold_next().await;
    scene.push_main(&scene.tip, &second).await.taken("");
    assert!(scene.node.serves(&state));
    let refs = [("refs/heads/main", scene.tip.as_str())];
    let back = scene.owner.state_at("x", &refs, None, later(20));
    assert!(scene.node.send(&back).await.accepted);
    assert_eq!(scene.main(), scene.tip);
    assert_eq!(collect(&scene, 8).await, Collected::default());
    let deletion = scene.owner.delete_events(&[state.id]);
    assert!(scene.node.send(&deletion).await.accepted);
    (scene, second)
}

#[tokio::test]
async fn a_branch_that_moved_back_gives_its_bytes_back_after_the_grace_time() {
    let (scene, second) = moved_back().await;
    assert_eq!(collect(&scene, 1).await, Collected::default());
    assert!(scene.node.has_object("x", &second));
    let done = collect(&scene, 8).await;
    assert!(done.objects >= 3 && done.bytes > 0, "{done:?}");
    let counted = scene.node.grasp().stats().collection;
    assert_eq!(
        (counted.objects, counted.bytes, counted.failures),
        (done.objects, done.bytes, 0)
    );
    assert!(!scene.node.has_object("x", &second));
    assert!(scene.node.has_object("x", &scene.tip));
    assert!(scene.node.fsck_is_clean(&scene.repo).await);
    scene.node.agrees().await;

    // Forward again: the data has to come again, and does.
    let refs = [("refs/heads/main", second.as_str())];
    let forward = scene.owner.state_at("x", &refs, None, later(30));
    scene.node.accepts(&forward, HELD).await;
    scene.push_main(&scene.tip, &second).await.taken("");
    assert!(scene.node.serves(&forward));
    assert!(scene.node.fsck_is_clean(&scene.repo).await);
}

/// G01-112: what is out of service comes back to its objects, however late, unless its author deletes it.
#[tokio::test]
async fn what_is_kept_out_of_service_keeps_its_objects() {
    let (scene, author) = (Scene::new().await, Author::new());
    let proposal = scene.commit("proposal");
    let elsewhere = "https://elsewhere.example/x.git";
    let request = author.pull_request(&scene.owner, "x", &proposal, elsewhere);
    scene.node.accepts(&request, HELD).await;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    scene.push(&[(ZERO, &proposal, &name)]).await.taken("");
    assert!(scene.node.serves(&request));
    let banned = [author.pubkey()].into();
    let ban = scene.node.enforce(|policy| policy.event_blacklist = banned);
    ban.await;
    assert!(!scene.node.refs(&scene.repo).contains_key(&name));
    assert_eq!(collect(&scene, 30).await, Collected::default());
    let unban = scene.node.enforce(|policy| policy.event_blacklist.clear());
    unban.await;
    assert_eq!(scene.node.refs(&scene.repo)[&name], proposal);
    assert!(scene.node.fsck_is_clean(&scene.repo).await);
    let deletion = author.delete_events(&[request.id]);
    scene.node.accepts(&deletion, "").await;
    assert!(collect(&scene, 30).await.objects > 0);
    assert!(!scene.node.has_object("x", &proposal));
    scene.node.agrees().await;
}

#[tokio::test]
async fn what_a_held_or_a_wanted_state_names_stays() {
    let (scene, second) = moved_back().await;
    let refs = [
        ("refs/heads/main", second.as_str()),
        ("refs/heads/other", NOWHERE),
    ];
    let incomplete = scene.owner.state_at("x", &refs, None, later(30));
    scene.node.accepts(&incomplete, HELD).await;
    assert_eq!(collect(&scene, 8).await, Collected::default());
    let in_an_hour = grip_grasp::Millis::from(later(3600));
    assert_eq!(scene.node.grasp().sweep(in_an_hour).await.events, 1);
    assert_eq!(collect(&scene, 9).await, Collected::default());
    assert!(scene.node.has_object("x", &second));
    let id = incomplete.id;
    assert!(scene.node.grasp().drop_waiting(&id).await.unwrap());
    assert!(collect(&scene, 10).await.objects > 0);
    scene.node.agrees().await;
}

#[tokio::test]
async fn an_archived_repository_goes_after_its_grace_time_and_its_objects_with_it() {
    let mut scene = Scene::new().await;
    let elsewhere = scene
        .owner
        .announcement_at("other.example.com", "x", vec![], later(5));
    scene.node.refuses(&elsewhere, "blocked: ").await;
    let in_two_days = grip_grasp::Millis::from(later(2 * 24 * 3600));
    assert_eq!(scene.node.grasp().sweep(in_two_days).await.withdrawn, 1);
    assert!(scene.node.has_store("x"));
    let day = 24 * 3600;
    assert_eq!(scene.node.grasp().age(later(80 * day)).await.archives, 0);
    scene.node.restart().await;
    assert!(scene.node.has_store("x"));
    assert_eq!(scene.node.grasp().age(later(95 * day)).await.archives, 1);
    assert_eq!(scene.node.grasp().sweep(in_two_days).await.stores, 1);
    assert!(!scene.node.has_store("x"));

    // Who comes back begins from nothing.
    scene
        .node
        .accepts(&announce(&scene.owner, "y", &[]), HELD)
        .await;
    let main = [(ZERO, scene.tip.as_str(), "refs/heads/main")];
    assert!(!scene.push(&main).await.accepted);
    scene.node.agrees().await;
}
