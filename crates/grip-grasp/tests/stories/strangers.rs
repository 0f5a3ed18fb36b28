//! Strangers who use the name of somebody's repository: what they cost, they wait for themselves.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
    mpsc,
};

use grip_relay::Verdict;
use grip_tasks::fault;
use grip_testkit::{Author, until_true, wire, within};

use crate::node::{HELD, Scene, ZERO, addr, announce, join};

/// Has everybody who reaches a point wait there until the sender is dropped.
fn close(point: &'static str) -> (mpsc::SyncSender<()>, Arc<AtomicBool>) {
    let (open, gate) = mpsc::sync_channel(1);
    let (gate, reached) = (Mutex::new(gate), Arc::new(AtomicBool::new(false)));
    let is_reached = Arc::clone(&reached);
    fault::meet(point, move || {
        is_reached.store(true, Ordering::Release);
        let _ = gate.lock().unwrap().recv();
    });
    (open, reached)
}

#[tokio::test]
async fn an_owner_does_not_wait_while_the_repository_of_a_stranger_is_made() {
    let scene = Scene::new().await;
    let (open, reached) = close("git.draft.made");
    let stranger = Author::new();
    let announcement = announce(&stranger, "x", &[]);
    let stranger_waits = scene.node.send(&announcement);
    let owner_works = async {
        until_true("the disk is slow for the stranger", || {
            reached.load(Ordering::Acquire)
        })
        .await?;
        let cycle = async {
            let (next, state) = scene.hold_next().await;
            scene.push_main(&scene.tip, &next).await.taken("");
            assert!(scene.node.serves(&state));
        };
        within("the owner pushes", cycle).await?;
        drop(open);
        anyhow::Ok(())
    };
    let (answer, worked) = tokio::join!(stranger_waits, owner_works);
    worked.unwrap();
    assert!(answer.accepted, "{answer:?}");
    assert_eq!(answer.message, HELD);
    assert!(scene.node.is_on_disk(&addr(&stranger, "x")));
    scene.node.agrees().await;
}

#[tokio::test]
async fn announcements_beyond_the_room_leave_nothing_on_the_disk() {
    let mut scene = Scene::new().await;
    scene.node.restart_with_room_for(2).await;
    let strangers: Vec<Author> = (0..6).map(|_| Author::new()).collect();
    for stranger in &strangers {
        let announcement = announce(stranger, "x", &[]);
        scene.node.accepts(&announcement, HELD).await;
    }
    let git = scene.node.data_dir().join("git");
    let owners = strangers.iter().map(|it| git.join(it.npub()));
    assert_eq!(owners.filter(|owner| owner.exists()).count(), 2);
    let quarantine = std::fs::read_dir(git.join(".quarantine")).unwrap();
    assert_eq!(quarantine.count(), 0);
    let (next, _state) = scene.hold_next().await;
    scene.push_main(&scene.tip, &next).await.taken("");
    scene.node.restart().await;
    assert_eq!(scene.main(), next);
    scene.node.agrees().await;
}

/// An announcement that is forgotten for room takes along what only it made count.
#[tokio::test]
async fn what_depended_on_a_forgotten_announcement_goes_with_it() {
    let mut scene = Scene::new().await;
    scene.node.restart_with_room_for(1).await;
    let first = Author::new();
    scene.node.accepts(&announce(&first, "x", &[]), HELD).await;
    let state = scene.hold_by(&first, &"5".repeat(40), 1).await;
    // The next one hides it, the one after it has it forgotten.
    for _ in 0..2 {
        assert!(scene.node.holds(&state).await);
        let announcement = announce(&Author::new(), "x", &[]);
        scene.node.accepts(&announcement, HELD).await;
    }
    assert!(!scene.node.holds(&state).await);
    scene.node.agrees().await;
}

/// Whose the last of the disk is: those who maintain something that is served. Patient strangers reached the
/// floor of all, and the next push of the owner was refused.
#[tokio::test]
async fn the_last_of_the_disk_is_left_to_maintainers() {
    const KEPT: &str = "kept for those who maintain";
    let mut scene = Scene::new().await;
    let second = Author::new();
    join(&scene.node, &scene.owner, &second).await;
    scene.node.restart_full_for_strangers().await;
    let (node, owner) = (&scene.node, &scene.owner);
    let stranger = Author::new();
    match node.judge(&stranger.issue(owner, "x", "ebb")) {
        Verdict::Refuse(answer) => {
            assert!(answer.message.starts_with("rate-limited: "), "{answer:?}");
            assert!(answer.message.contains(KEPT), "{answer:?}");
        }
        other => panic!("{other:?}"),
    }
    for maintainer in [owner, &second] {
        let issue = maintainer.issue(owner, "x", "flood");
        assert_eq!(node.judge(&issue), Verdict::Store);
    }
    node.refuses(&announce(&stranger, "y", &[]), KEPT).await;
    let tip = scene.commit("proposal");
    let name = format!("refs/nostr/{}", "ab".repeat(32));
    let mut body = wire::commands(&[(ZERO, &tip, &name)], wire::CAPABILITIES);
    body.extend(
        wire::pack(&scene.tree, &tip, Some(&scene.tip))
            .await
            .unwrap(),
    );
    node.push_bytes(&scene.repo, body).await.refused(KEPT);
    assert_eq!(node.staged_bytes(), 0);

    let (next, state) = scene.hold_next().await;
    scene.push_main(&scene.tip, &next).await.taken("");
    assert!(scene.node.serves(&state));
    scene.node.agrees().await;
}
