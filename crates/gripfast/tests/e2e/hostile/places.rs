//! Strangers who take all the room there is: the owner of a repository finds some all the same.

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, http::Connection, until_ok, wire};
use nostr::prelude::Timestamp;

use crate::hostile::scene::{MAIN, Scene};

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
        trickle(pack).await?;
    }
    Ok(())
}

async fn trickle(pack: &[u8]) -> Result<()> {
    let mut scene = Scene::new().await?;
    let path = scene.project.path();
    let mut trickling = Vec::new();
    for n in 1..=8 {
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
        let mut connection = Connection::open(scene.node.port()).await?;
        connection.send(&[head.as_bytes(), &body].concat()).await?;
        trickling.push(connection);
    }
    let taken = "requests_in_flight{route=\"push\"} 8";
    until_ok("eight uploads are under way", async || {
        Ok(scene
            .node
            .get("/metrics")
            .await?
            .contains(taken)
            .then_some(()))
    })
    .await?;
    scene.goes_on().await
}
