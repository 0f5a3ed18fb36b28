//! Strangers who take all the room there is: the owner of a repository finds some all the same.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, LocalProject, WorkTree, http::Connection, until_ok, wire};
use nostr::prelude::Timestamp;

use crate::hostile::scene::{MAIN, NO_PROXY, Scene};

#[tokio::test]
async fn states_of_strangers_under_the_same_name_do_not_keep_the_owner_out() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (authority, name) = (
        scene.node.authority(),
        scene.project.project.identifier.clone(),
    );
    let at = Timestamp::now().as_secs() - 5_000;
    for _ in 0..3 {
        let stranger = Author::new();
        let announcement = stranger.announcement(&authority, &name, vec![]);
        scene.relay.publish_ok(&announcement).await?;
        for n in 0..99 {
            let tip = format!("{:040x}", n + 1);
            let at = Timestamp::from_secs(at + n);
            let state = stranger.state_at(&name, &[(MAIN, &tip)], None, at);
            let answer = scene.relay.publish(&state).await?;
            ensure!(answer.is_held(), "{answer:?}");
        }
    }
    scene.goes_on().await
}

#[tokio::test]
async fn a_name_that_strangers_announced_is_open_to_the_next_owner() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_PURGATORY_MAX_PER_IDENTIFIER", "20")]).await?;
    let authority = scene.node.authority();
    for _ in 0..30 {
        let announcement = Author::new().announcement(&authority, "taken", vec![]);
        let answer = scene.relay.publish(&announcement).await?;
        ensure!(answer.is_held(), "{answer:?}");
    }
    let project = LocalProject::new("taken")?;
    let state = project.publish(&scene.node, 10).await?;
    ensure!(scene.relay.serves(&state.id).await?);
    scene.goes_on().await
}

#[tokio::test]
async fn pushes_that_trickle_do_not_lock_the_owner_out() -> Result<()> {
    // A pack that never ends, and one that git refuses at once while its body goes on.
    for pack in [&b"PACK\0\0\0\x02\0\0\0\x09"[..], b"no pack at all"] {
        trickle(Scene::new().await?, 8, pack).await?;
    }
    Ok(())
}

/// More than the requests that one repository may have, each from an address of its own.
#[tokio::test]
async fn pushes_that_trickle_from_many_addresses_do_not_lock_the_owner_out() -> Result<()> {
    let scene = Scene::with(&[NO_PROXY]).await?;
    trickle(scene, 48, b"PACK\0\0\0\x02\0\0\0\x09").await
}

/// They take no request of the repository: nobody knows yet what they are for.
#[tokio::test]
async fn pushes_without_their_commands_do_not_lock_the_owner_out() -> Result<()> {
    let mut scene = Scene::with(&[NO_PROXY]).await?;
    let mut begun = Vec::new();
    for n in 1..=48 {
        let head = format!(
            "POST {}/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\n\
             Content-Length: 1000\r\n\r\n00",
            scene.project.path(),
            wire::PUSH_TYPE
        );
        let from = Ipv4Addr::new(127, 3, 0, n);
        let mut connection = Connection::open_from(from, scene.node.port()).await?;
        connection.send(head.as_bytes()).await?;
        begun.push(connection);
    }
    scene.goes_on().await
}

/// The owner pushes while so many uploads to `refs/nostr/…` begin with `pack` and never end.
async fn trickle(mut scene: Scene, uploads: u8, pack: &[u8]) -> Result<()> {
    let path = scene.project.path();
    let mut trickling = Vec::new();
    for n in 1..=uploads {
        let (tip, name) = (format!("{n:040x}"), format!("refs/nostr/{n:064x}"));
        let mut body = wire::commands(&[(wire::ZERO, &tip, &name)], wire::CAPABILITIES);
        body.extend_from_slice(pack);
        // The rest never comes.
        let head = format!(
            "POST {path}/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\n\
             Content-Length: {}\r\n\r\n",
            wire::PUSH_TYPE,
            body.len() + 1_000_000
        );
        let from = Ipv4Addr::new(127, 2, 0, n);
        let mut connection = Connection::open_from(from, scene.node.port()).await?;
        connection.send(&[head.as_bytes(), &body].concat()).await?;
        trickling.push(connection);
    }
    // Of those that no state allows four are under way and eight wait; others are refused.
    let taken = format!("requests_in_flight{{route=\"push\"}} {}", uploads.min(12));
    until_ok("the uploads are under way", async || {
        let metrics = scene.node.get("/metrics").await?;
        Ok(metrics.contains(&taken).then_some(()))
    })
    .await?;
    scene.goes_on().await
}

/// Clients of these addresses count as what they are.
const SCARCE: &[(&str, &str)] = &[("GRIPFAST_MAX_FETCHES", "4"), NO_PROXY];

/// Fetch requests from as many addresses as the repository has permits for, whose bodies end too soon.
async fn begin_fetches(scene: &Scene, body: &[u8]) -> Result<Vec<Connection>> {
    let mut begun = Vec::new();
    for n in 1..=2 {
        let head = format!(
            "POST {}/git-upload-pack HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\
             Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {}\r\n\r\n",
            scene.project.path(),
            body.len() + 1_000
        );
        let address = Ipv4Addr::new(127, 3, 0, n);
        let mut connection = Connection::open_from(address, scene.node.port()).await?;
        connection.send(head.as_bytes()).await?;
        connection.until_text("100 Continue").await?;
        connection.send(body).await?;
        begun.push(connection);
    }
    Ok(begun)
}

#[tokio::test]
async fn fetches_that_do_not_say_what_for_take_no_permit() -> Result<()> {
    let mut scene = Scene::with(SCARCE).await?;
    let begun = begin_fetches(&scene, b"").await?;
    let clone = WorkTree::clone(&scene.url(), &["--bare"]).await;
    clone.context("a clone beside requests without a body")?;
    drop(begun);
    scene.goes_on().await
}

#[tokio::test]
async fn fetches_whose_long_request_does_not_come_make_room() -> Result<()> {
    let mut scene = Scene::with(SCARCE).await?;
    let want = format!("want {} multi_ack_detailed\n", scene.project.tip);
    let mut body = wire::packet(want.as_bytes());
    body.extend(b"0000");
    for n in 0..1_000 {
        body.extend(wire::packet(format!("have {n:040x}\n").as_bytes()));
    }
    let begun = begin_fetches(&scene, &body).await?;
    let taken = "requests_in_flight{route=\"fetch\"} 2";
    until_ok("the permits of the repository are taken", async || {
        let metrics = scene.node.get("/metrics").await?;
        Ok(metrics.contains(taken).then_some(()))
    })
    .await?;
    let clone = WorkTree::clone(&scene.url(), &["--bare"]).await;
    clone.context("a clone beside requests that stand still")?;
    drop(begun);
    scene.goes_on().await
}
