//! Requests to vanish (NIP-62, G01-117 … G01-120).

use grip_grasp::RepositoryStatus;
use grip_nostr::{Event, MaintainerRule, Timestamp};
use grip_testkit::Author;
use grip_types::Origin;

use crate::node::{HELD, SERVICE, Scene, ZERO, addr, announce, announce_at, elsewhere, later};

fn vanish(author: &Author, relay: &str, at: Timestamp) -> Event {
    author.sign_at(62, "", vec![vec!["relay".into(), relay.into()]], at)
}

#[tokio::test]
async fn g01_118_all_of_a_key_goes_relay_and_git_and_nothing_is_kept() {
    let mut scene = Scene::new().await;
    let (second, third) = (Author::new(), Author::new());
    let node = &scene.node;
    node.set_policy(|policy| policy.maintainer_rule = MaintainerRule::Legacy);
    // Somebody else's repository of the same name rests on the key's state.
    node.accepts(&announce(&second, "x", &[&scene.owner]), "")
        .await;
    let issue = third.sign(
        1621,
        "it leaks",
        vec![vec!["a".into(), scene.owner.coordinate("z")]],
    );
    let waits = announce(&scene.owner, "z", &[]);
    node.accepts(&waits, HELD).await;
    let note = scene
        .owner
        .sign(1621, "mine", vec![vec!["a".into(), second.coordinate("x")]]);
    node.store(&note);
    node.store(&issue);
    let announcement = announce_at(&scene.owner, "x", &[], later(1));
    node.accepts(&announcement, "").await;
    let request = vanish(&scene.owner, "ALL_RELAYS", later(2));
    node.accepts(&request, "").await;
    assert!(node.serves(&request));
    assert!(!node.serves(&announcement) && !node.serves(&note));
    assert_eq!(
        node.waiting(),
        1,
        "the second owner's announcement waits for a state"
    );
    assert_eq!(node.grasp().repository(&scene.repo), None);
    assert!(!node.is_on_disk(&scene.repo));
    assert_eq!(node.archived(&scene.owner), 0);
    let held = node.grasp().held_back().await.unwrap();
    assert!(held.iter().all(|it| it.events == 0), "{held:?}");
    let status = node.grasp().repository(&addr(&second, "x"));
    assert_eq!(status, Some(RepositoryStatus::Held));
    node.agrees().await;
    // Nor does anything come back, by sync or by hand, before or after a restart.
    for origin in [Origin::Submitted, Origin::Synced] {
        for event in [&announcement, &waits] {
            let answer = node.send_as(event, origin).await;
            assert!(
                !answer.accepted && answer.message.contains("deleted"),
                "{answer:?}"
            );
        }
    }
    scene.node.restart().await;
    let node = &scene.node;
    let answer = node.send_as(&announcement, Origin::Synced).await;
    assert!(!answer.accepted, "{answer:?}");
    node.agrees().await;
    // NIP-62 covers what was made before: what is new is taken (G01-119).
    node.accepts(&announce_at(&scene.owner, "x", &[], later(9)), HELD)
        .await;
    let state = scene
        .owner
        .state_at("x", &[("refs/heads/main", &scene.tip)], None, later(10));
    let answer = node.send(&state).await;
    assert!(answer.accepted, "{answer:?}");
    let told = scene.push_main(ZERO, &scene.tip).await;
    assert!(told.accepted || scene.main() == scene.tip, "{told:?}");
    assert_eq!(scene.main(), scene.tip);
    node.agrees().await;
}

#[tokio::test]
async fn g01_117_a_request_for_another_relay_is_kept_and_does_nothing() {
    let scene = Scene::new().await;
    let request = vanish(&scene.owner, "wss://elsewhere.example.com", later(2));
    scene.node.accepts(&request, "").await;
    assert!(scene.node.serves(&request));
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
    let request = vanish(&scene.owner, &format!("wss://{SERVICE}/"), later(3));
    scene.node.accepts(&request, "").await;
    assert_eq!(scene.node.grasp().repository(&scene.repo), None);
    scene.node.agrees().await;
}

/// G01-118: what a crash leaves undone is done by the start.
#[tokio::test]
async fn g01_118_a_request_that_was_only_stored_is_carried_out_by_the_start() {
    let mut scene = Scene::new().await;
    let request = vanish(&scene.owner, "ALL_RELAYS", later(2));
    scene.node.store_vanish(&request);
    assert_eq!(scene.main(), scene.tip, "nothing has been done yet");
    scene.node.restart().await;
    grip_testkit::until("the key has vanished", || async {
        let gone = scene.node.grasp().repository(&scene.repo).is_none();
        gone.then_some(())
    })
    .await
    .unwrap();
    scene.node.agrees().await;
    assert!(!scene.node.is_on_disk(&scene.repo));
}

/// G01-120 is about what was made before the request: who comes back is kept as everybody else.
#[tokio::test]
async fn g01_120_a_key_that_came_back_keeps_what_a_later_block_takes_out() {
    let mut scene = Scene::new().await;
    let request = vanish(&scene.owner, "ALL_RELAYS", later(2));
    scene.node.accepts(&request, "").await;
    let announcement = announce_at(&scene.owner, "x", &[], later(9));
    scene.node.accepts(&announcement, HELD).await;
    let refs = [("refs/heads/main", scene.tip.as_str())];
    let state = scene.owner.state_at("x", &refs, None, later(10));
    assert!(scene.node.send(&state).await.accepted);
    if !scene.node.serves(&state) {
        scene.push_main(ZERO, &scene.tip).await.taken("");
    }
    // The request comes again, as it does from other relays: it is done.
    scene.node.send_as(&request, Origin::Synced).await;
    assert_eq!(scene.main(), scene.tip);

    let npub = scene.owner.npub();
    assert!(scene.node.grasp().block(&npub, "").await.unwrap());
    assert_eq!(scene.node.grasp().repository(&scene.repo), None);
    assert_eq!(scene.node.archived(&scene.owner), 1);
    scene.node.restart().await;
    scene.node.enforce(|_| {}).await;
    assert_eq!(
        scene.node.archived(&scene.owner),
        1,
        "the old request is done"
    );
    assert!(scene.node.grasp().unblock(&npub).await.unwrap());
    assert!(scene.node.serves(&announcement) && scene.node.serves(&state));
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

/// G01-118: a repository whose owner had left is readable for a day, unless the owner vanishes.
#[tokio::test]
async fn g01_118_a_repository_that_its_owner_had_left_goes_with_the_key() {
    let scene = Scene::new().await;
    let leaving = elsewhere(&scene.owner, &[], later(1));
    scene.node.send(&leaving).await;
    assert_eq!(scene.main(), scene.tip, "it is readable for a day");
    let request = vanish(&scene.owner, "ALL_RELAYS", later(2));
    scene.node.accepts(&request, "").await;
    assert_eq!(scene.node.grasp().repository(&scene.repo), None);
    assert!(!scene.node.is_on_disk(&scene.repo));
    assert_eq!(scene.node.archived(&scene.owner), 0);
    scene.node.agrees().await;
}
