//! Uploads that take longer than an event may wait.

use std::time::Duration;

use grip_grasp::Millis;
use grip_nostr::Timestamp;
use tokio::{io::AsyncWriteExt as _, time::sleep};

use crate::node::{Scene, Told};

/// How long events wait here: a second stands for ten minutes.
const LIFETIME: Duration = Duration::from_secs(3);
/// Pieces of an upload, and the time between two: more than twice as long as events wait.
const PIECES: usize = 14;
const PAUSE: Duration = Duration::from_millis(500);

/// Incompressible bytes.
fn noise(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'a' + (state >> 59) as u8 % 26)
    };
    (0..bytes).map(|_| next()).collect()
}

/// Sends a body in pieces, while the node sweeps as it does every minute.
async fn send_slowly(scene: &Scene, body: Vec<u8>, first: usize) -> Told {
    let (mut sender, receiver) = tokio::io::duplex(1 << 20);
    let piece = first.min(body.len() / PIECES + 1);
    let sending = async {
        for piece in body.chunks(piece).take(PIECES) {
            if sender.write_all(piece).await.is_err() {
                break;
            }
            sleep(PAUSE).await;
        }
        let sent = (piece * PIECES).min(body.len());
        let _ = sender.write_all(&body[sent..]).await;
        drop(sender);
    };
    let sweeping = async {
        loop {
            let now = Millis::from(Timestamp::now());
            scene.node.grasp().sweep(now).await;
            sleep(PAUSE).await;
        }
    };
    let pushing = async {
        let (told, ()) = tokio::join!(scene.node.push_stream(&scene.repo, receiver), sending);
        told
    };
    tokio::select! {
        told = pushing => told,
        () = sweeping => unreachable!("it never ends"),
    }
}

async fn scene() -> (Scene, String, nostr::prelude::Event) {
    let mut scene = Scene::new().await;
    scene.node.restart_with_lifetime(LIFETIME).await;
    let next = scene.commit(&noise(2 << 20));
    let state = scene.hold(&next, 1).await;
    (scene, next, state)
}

#[tokio::test]
async fn an_upload_that_makes_progress_keeps_its_state_alive() {
    let (scene, next, state) = scene().await;
    let told = send_slowly(&scene, scene.body(&next).await, usize::MAX).await;
    told.taken("served");
    assert!(scene.node.serves(&state));
    assert_eq!(scene.main(), next);
    scene.node.agrees().await;
}

#[tokio::test]
async fn a_trickle_keeps_nothing_alive() {
    let (scene, next, state) = scene().await;
    let told = send_slowly(&scene, scene.body(&next).await, 100).await;
    told.refused("");
    assert!(!scene.node.serves(&state) && !scene.node.holds(&state).await);
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

#[tokio::test]
async fn a_push_that_changes_nothing_keeps_nothing_alive() {
    let (scene, next, state) = scene().await;
    // What is there already, with the same pack: it brings nothing that the state waits for.
    let command = [(scene.tip.as_str(), scene.tip.as_str(), "refs/heads/main")];
    let mut body = grip_testkit::wire::commands(&command, grip_testkit::wire::CAPABILITIES);
    body.extend(
        grip_testkit::wire::pack(&scene.tree, &next, None)
            .await
            .unwrap(),
    );
    send_slowly(&scene, body, usize::MAX).await.taken("");
    assert!(!scene.node.holds(&state).await);
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}

#[tokio::test]
async fn a_ref_of_a_pull_request_beside_it_keeps_nothing_alive() {
    let (scene, next, state) = scene().await;
    // The branch stays; the ref is of an event that nobody has.
    let name = format!("refs/nostr/{}", "ab".repeat(32));
    let commands = [
        (scene.tip.as_str(), scene.tip.as_str(), "refs/heads/main"),
        (crate::node::ZERO, next.as_str(), name.as_str()),
    ];
    let mut body = grip_testkit::wire::commands(&commands, grip_testkit::wire::CAPABILITIES);
    let pack = grip_testkit::wire::pack(&scene.tree, &next, None).await;
    body.extend(pack.unwrap());
    send_slowly(&scene, body, usize::MAX).await;
    assert!(!scene.node.serves(&state) && !scene.node.holds(&state).await);
    assert_eq!(scene.main(), scene.tip);
    scene.node.agrees().await;
}
