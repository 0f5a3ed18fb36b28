//! The node ends in the middle of a fetch.

use std::time::Duration;

use anyhow::{Result, ensure};
use grip_testkit::{
    LocalProject, Project, RemoteHost, RemoteProject, WorkTree, remote::Behaviour, until_ok,
    until_true,
};
use tokio::time::Instant;

use crate::sync::scene::Scene;

const MAIN: &str = "refs/heads/main";

#[tokio::test]
async fn a_fetch_cut_by_a_crash_is_made_again_after_the_start() -> Result<()> {
    for behaviour in [
        Behaviour::HangBeforeHeaders,
        Behaviour::HangAfter { bytes: 100_000 },
    ] {
        let mut scene = Scene::new().await?;
        let tree = WorkTree::init()?;
        tree.commit_noise(1, 1)?;
        let local = LocalProject::with_tree("x", tree)?;
        let project = RemoteProject::start("127.0.0.2", "x.git", local).await?;
        let host = &project.host;
        host.behave(behaviour);
        let state = scene.hold_remote(&project).await?;
        until_true("the fetch is under way", || host.in_flight() == 1).await?;
        scene.node.kill();
        until_true("the host sees the end", || host.in_flight() == 0).await?;
        host.behave(Behaviour::Serve);
        scene.node.launch().await?;
        scene.released(&state).await?;
        ensure!(host.count() == 2, "{:?}", host.requests());
        scene.has_refs(&project, &[(MAIN, &project.tip)]).await?;
        scene.is_clean(&project).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_fetch_under_way_does_not_hold_up_the_end() -> Result<()> {
    let deadline = [("GRIPFAST_DRAIN_DEADLINE", "4s")];
    let (mut scene, project) = Scene::with_remote(&deadline).await?;
    let host = &project.host;
    host.behave(Behaviour::HangBeforeHeaders);
    let state = scene.hold_remote(&project).await?;
    until_true("the fetch is under way", || host.in_flight() == 1).await?;
    let asked = Instant::now();
    let status = scene.node.stop().await?;
    let took = asked.elapsed();
    ensure!(status.success(), "{status}\n{}", scene.node.log());
    ensure!(took < Duration::from_secs(5), "it took {took:?}");
    until_true("the host sees the end", || host.in_flight() == 0).await?;
    host.behave(Behaviour::Serve);
    scene.node.launch().await?;
    scene.released(&state).await?;
    scene.is_clean(&project).await
}

#[tokio::test]
async fn what_waits_for_its_turn_waits_on_after_a_restart() -> Result<()> {
    let late = [("NGIT_SYNC_DEFAULT_DELAY_SECS", "600")];
    let (mut scene, project) = Scene::with_remote(&late).await?;
    let state = scene.hold_remote(&project).await?;
    let due = async |scene: &Scene| -> Result<serde_json::Value> {
        let status = scene.node.json("/api/v1/sync").await?;
        Ok(status["queue"][0]["next_attempt"].clone())
    };
    let before = due(&scene).await?;
    ensure!(before.is_i64(), "{before}");
    scene.node.crash_and_restart().await?;
    ensure!(due(&scene).await? == before);
    ensure!(project.host.count() == 0, "it was not due");
    scene.sync_now(&project).await?;
    scene.released(&state).await
}

#[tokio::test]
async fn g02_2_7_what_expired_without_its_data_is_looked_for_and_survives_a_crash() -> Result<()> {
    let mut scene = Scene::with(&[
        ("GRIPFAST_PURGATORY_LIFETIME", "5s"),
        ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1s"),
        ("GRIPFAST_WANTED_INTERVAL", "1s"),
    ])
    .await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let url = host.create("x.git")?;
    let project = Project::new("x");
    scene.announce(&project, &[url]).await?;
    let first = project.state_at(&[(MAIN, &tip)], 20);
    scene.hold(&first).await?;
    scene.has_tried(&first, 1).await?;
    host.take(&tree, "x.git", &["main"])?;
    scene.sync_now(&project).await?;
    scene.released(&first).await?;

    let more = tree.commit("more", "1")?;
    let state = scene.hold_state(&project, &more).await?;
    let waits_as = async |scene: &Scene, status: &str| {
        until_ok("it waits in this way", async || {
            let list = scene.node.json("/api/v1/purgatory").await?;
            let waiting = list["waiting"].as_array().into_iter().flatten();
            let of = |entry: &&serde_json::Value| entry["id"] == state.id.to_hex();
            let found = waiting.into_iter().find(of);
            Ok(found.filter(|entry| entry["status"] == status).map(drop))
        })
        .await
    };
    waits_as(&scene, "wanted").await?;
    // The journal is written in order: what is acknowledged now comes after the wanted row.
    scene.announce(&Project::new("y"), &[]).await?;
    scene.node.crash_and_restart().await?;
    scene.relay = scene.node.connect().await?;
    waits_as(&scene, "wanted").await?;
    ensure!(!scene.serves(&state).await?);
    // What nobody holds any more authorises no push.
    let pushed = tree.push(&project.url(&scene.node), &["main"]).await?;
    ensure!(!pushed.ok, "{}", pushed.stderr);
    host.take(&tree, "x.git", &["main"])?;
    // The URL is left alone for a while after it had nothing; the operator knows better. An error
    // means that the search was quicker and nothing waits any more, which the next line checks.
    let _quicker = scene.sync_now(&project).await;
    scene.released(&state).await?;
    scene.has_refs(&project, &[(MAIN, &more)]).await?;
    scene.is_clean(&project).await
}
