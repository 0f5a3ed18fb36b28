//! Orders of the operator: removals and blocks act on relay and git alike.

use std::sync::atomic::Ordering;

use grip_grasp::{Removal, Removed};
use grip_tasks::fault;
use grip_testkit::until_true;

use crate::{
    node::{HELD, Scene, announce_at, later},
    strangers::close,
};

#[tokio::test]
async fn a_removed_repository_is_gone_from_relay_and_git_and_may_be_announced_anew() {
    let mut scene = Scene::new().await;
    let listed = scene
        .node
        .grasp()
        .list_repositories(10, true)
        .await
        .unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].branches, listed[0].owners), (1, 1));
    assert!(listed[0].object_bytes > 0);
    let what = Removal::Repository(scene.repo.clone());
    let planned = scene.node.grasp().would_remove(&what).await.unwrap();
    let expected = Removed {
        served: 1,
        waiting: 0,
        repositories: 1,
    };
    assert_eq!(planned, expected);
    assert!(scene.node.is_on_disk(&scene.repo), "a plan changes nothing");

    let removed = scene.node.grasp().remove(&what).await.unwrap();
    assert_eq!(removed, expected);
    assert!(scene.node.grasp().repository(&scene.repo).is_none());
    assert!(!scene.node.is_on_disk(&scene.repo));
    scene.node.agrees().await;
    scene.node.restart().await;
    assert!(scene.node.grasp().repository(&scene.repo).is_none());
    assert!(scene.node.grasp().remove(&what).await.unwrap().is_nothing());

    let again = announce_at(&scene.owner, "x", &[], later(60));
    assert!(scene.node.send(&again).await.accepted);
    assert!(scene.node.grasp().repository(&scene.repo).is_some());
    scene.node.agrees().await;
}

#[tokio::test]
async fn all_of_an_author_goes_held_and_served() {
    let scene = Scene::new().await;
    let (_, state) = scene.hold_next().await;
    let author = Removal::Author(scene.repo.owner);
    let planned = scene.node.grasp().would_remove(&author).await.unwrap();
    assert_eq!((planned.served, planned.waiting), (2, 1));
    let removed = scene.node.grasp().remove(&author).await.unwrap();
    assert_eq!(removed, planned);
    assert!(!scene.node.holds(&state).await && scene.node.waiting() == 0);
    assert!(scene.node.grasp().repository(&scene.repo).is_none());
    scene.node.agrees().await;
}

#[tokio::test]
async fn one_event_goes_alone() {
    let scene = Scene::new().await;
    let (second, served) = scene.hold_next().await;
    scene.push_main(&scene.tip, &second).await.taken("");
    let third = scene.commit("third");
    let held = scene.hold(&third, 40).await;
    let removed = scene.node.grasp().remove(&Removal::Event(held.id)).await;
    assert_eq!(removed.unwrap().waiting, 1);
    assert!(!scene.node.holds(&held).await && scene.node.serves(&served));
    let removed = scene.node.grasp().remove(&Removal::Event(served.id)).await;
    assert_eq!(removed.unwrap().served, 1);
    assert!(!scene.node.serves(&served));
    scene.node.agrees().await;
}

#[tokio::test]
async fn a_block_acts_on_relay_and_git_outlives_a_restart_and_is_undone_whole() {
    let mut scene = Scene::new().await;
    let subject = format!("{}/x", scene.repo.npub());
    let grasp = scene.node.grasp().clone();
    assert!(grasp.block(&subject, "spam").await.unwrap());
    assert!(!grasp.block(&subject, "again").await.unwrap());
    assert!(grasp.repository(&scene.repo).is_none());
    drop(grasp);
    scene.node.restart().await;
    let blocks = scene.node.grasp().blocks();
    assert_eq!((blocks.len(), &*blocks[0].reason), (1, "spam"));
    assert!(scene.node.grasp().repository(&scene.repo).is_none());
    let again = announce_at(&scene.owner, "x", &[], later(60));
    scene.node.refuses(&again, "blocked: ").await;
    let main = [(&*scene.tip, &*scene.tip, "refs/heads/main")];
    assert!(!scene.push(&main).await.accepted);
    // Other rules that are read again do not lift it.
    scene.node.enforce(|_| {}).await;
    scene.node.refuses(&again, "blocked: ").await;

    assert!(scene.node.grasp().unblock(&subject).await.unwrap());
    assert!(!scene.node.grasp().unblock(&subject).await.unwrap());
    assert!(scene.node.grasp().repository(&scene.repo).is_some());
    assert_eq!(scene.main(), scene.tip, "the archive gave it back");
    scene.node.agrees().await;
}

#[tokio::test]
async fn a_blocked_author_is_out_with_everything() {
    let scene = Scene::new().await;
    let stranger = grip_testkit::Author::new();
    let held = announce_at(&stranger, "y", &[], later(1));
    scene.node.accepts(&held, HELD).await;
    let repo = crate::node::addr(&stranger, "y");
    assert!(scene.node.grasp().block(&repo.npub(), "").await.unwrap());
    assert!(!scene.node.holds(&held).await);
    assert!(scene.node.grasp().repository(&repo).is_none());
    let more = announce_at(&stranger, "z", &[], later(2));
    scene.node.refuses(&more, "blocked: ").await;
    scene.node.agrees().await;
    assert!(scene.node.grasp().unblock(&repo.npub()).await.unwrap());
    scene.node.accepts(&more, HELD).await;
    assert!(scene.node.grasp().repository(&scene.repo).is_some());
}

/// The block has kept what it is about to take out of service when it is lifted: nothing is lost whichever
/// of the two comes first.
#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_is_lifted_while_it_acts_takes_nothing_out_of_service() {
    let scene = Scene::new().await;
    let subject = format!("{}/x", scene.repo.npub());
    let (go_on, is_kept) = close("ban.held_back");
    let grasp = scene.node.grasp();
    let lift = async {
        until_true("the block acts", || is_kept.load(Ordering::Acquire)).await?;
        // Lifted to its end, or waiting for the block.
        let go_on_then = go_on.clone();
        fault::meet("enforce.asked", move || {
            let _ = go_on_then.try_send(());
        });
        let lifted = grasp.unblock(&subject).await?;
        let _ = go_on.try_send(());
        anyhow::Ok(lifted)
    };
    let (blocked, lifted) = tokio::join!(grasp.block(&subject, "spam"), lift);
    assert!(blocked.unwrap() && lifted.unwrap());
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}
