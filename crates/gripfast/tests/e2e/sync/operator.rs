//! The operator's view of sync: commands, JSON and metrics.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{RemoteProject, http::must_contain, remote::Behaviour, until_ok};
use nostr::prelude::Event;
use serde_json::Value;

use crate::sync::scene::Scene;

/// A state that waits for a host that refused once.
async fn refused() -> Result<(Scene, RemoteProject, Event)> {
    let (mut scene, project) = Scene::with_remote(&[]).await?;
    project.host.behave(Behaviour::status(404));
    let state = scene.hold_remote(&project).await?;
    scene.has_tried(&state, 1).await?;
    Ok((scene, project, state))
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("no JSON: {text}"))
}

#[tokio::test]
async fn the_queue_the_hosts_and_what_waits_are_shown() -> Result<()> {
    let (scene, project, state) = refused().await?;
    let id = state.id.to_hex();
    let table = scene.node.run(&["sync", "status"]).await?;
    ensure!(table.contains("127.0.0.2"), "{table}");
    let status = parse(&scene.node.run(&["sync", "status", "--json"]).await?)?;
    ensure!(
        status["enabled"] == true
            && status["queue_length"] == 1
            && status["queue"][0]["identifier"] == "x"
            && status["tried"][0]["url"] == project.url
            && status["hosts"][0]["requests_total"] == 1,
        "{status}"
    );

    let table = scene.node.run(&["purgatory", "ls"]).await?;
    ensure!(table.contains(&id[..8]) && table.contains('x'), "{table}");
    let list = parse(&scene.node.run(&["purgatory", "ls", "--json"]).await?)?;
    let waiting = list["waiting"].as_array().context("no list")?;
    let entry = waiting.iter().find(|entry| entry["id"] == id.as_str());
    let entry = entry.with_context(|| format!("{id} is not in {list}"))?;
    ensure!(
        entry["class"] == "state"
            && entry["missing"] == 1
            && entry["attempts"] == 1
            && entry["next_attempt"].is_i64()
            && entry["deadline"].as_i64() > entry["since"].as_i64(),
        "{entry}"
    );

    let said = scene.node.run(&["explain", &id]).await?;
    must_contain(&said, &[&project.tip, &project.url, "404"]);
    Ok(())
}

#[tokio::test]
async fn an_attempt_is_brought_forward_by_hand() -> Result<()> {
    let (mut scene, project, state) = refused().await?;
    let host = &project.host;
    let retry = ["purgatory", "retry", &state.id.to_hex()];
    scene.node.run(&retry).await?;
    scene.has_tried(&state, 2).await?;
    host.behave(Behaviour::Serve);
    scene.node.run(&["sync", "now", "x"]).await?;
    scene.released(&state).await?;
    ensure!(host.count() == 3, "{:?}", host.requests());
    let none = scene.node.run(&["sync", "now", "x"]).await;
    ensure!(none.is_err(), "nothing waits any more: {none:?}");
    Ok(())
}

#[tokio::test]
async fn what_waits_is_dropped_by_hand_and_only_with_yes() -> Result<()> {
    let (scene, _project, state) = refused().await?;
    let id = state.id.to_hex();
    let waits = async || -> Result<bool> {
        let list = scene.node.json("/api/v1/purgatory").await?;
        Ok(list.to_string().contains(&id))
    };
    let shown = scene.node.run(&["purgatory", "drop", &id]).await?;
    ensure!(shown.contains("--yes"), "{shown}");
    ensure!(waits().await?, "a dry run drops nothing");
    scene.node.run(&["purgatory", "drop", &id, "--yes"]).await?;
    ensure!(!waits().await?);
    let again = scene.node.run(&["purgatory", "drop", &id, "--yes"]).await;
    ensure!(again.is_err(), "{again:?}");
    ensure!(
        scene.node.log().contains("purgatory drop"),
        "no audit record"
    );
    Ok(())
}

#[tokio::test]
async fn strangers_change_nothing() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let (scene, project, state) = refused().await?;
    let token = scene.node.data_dir().join("admin.token");
    let mode = std::fs::metadata(&token)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let id = state.id.to_hex();
    let right = format!("Bearer {}", scene.node.admin_token()?);
    let proxied = [
        ("authorization", &*right),
        ("x-forwarded-for", "203.0.113.7"),
    ];
    for (method, path) in [
        ("POST", "/api/v1/sync/x/now".to_owned()),
        ("POST", format!("/api/v1/purgatory/{id}/retry")),
        ("DELETE", format!("/api/v1/purgatory/{id}")),
    ] {
        for (proof, status) in [
            (&[][..], 401),
            (&[("authorization", "Bearer wrong")], 401),
            (&proxied, 403),
        ] {
            let answer = scene.node.ask(method, &path, proof, b"").await?;
            answer.must_be(status, &[]);
        }
    }
    let requests = project.host.requests();
    ensure!(requests.len() == 1, "{requests:?}");
    let list = scene.node.json("/api/v1/purgatory").await?;
    ensure!(list.to_string().contains(&id), "{list}");
    Ok(())
}

#[tokio::test]
async fn metrics_tell_of_the_queue_and_of_each_host() -> Result<()> {
    let (scene, project, _) = refused().await?;
    project.host.behave(Behaviour::Serve);
    scene.sync_now(&project).await?;
    let expected = [
        "purgatory_sync_queue_size 0",
        "purgatory_sync_attempts_total 2",
        "purgatory_sync_oids_fetched_total 1",
        "purgatory_domain_in_flight{domain=\"127.0.0.2\"} 0",
        "purgatory_domain_requests_total{domain=\"127.0.0.2\"} 2",
    ];
    let mut metrics = String::new();
    until_ok("the figures", async || {
        metrics = scene.node.get("/metrics").await?.text();
        let all = expected.iter().all(|line| metrics.contains(line));
        Ok(all.then_some(()))
    })
    .await
    .with_context(|| format!("{expected:#?} in {metrics}"))
}

#[tokio::test]
async fn a_node_with_sync_switched_off_asks_nobody() -> Result<()> {
    let off = [("GRIPFAST_SYNC_ENABLED", "false")];
    let (mut scene, project) = Scene::with_remote(&off).await?;
    let state = scene.hold_remote(&project).await?;
    let status = scene.node.json("/api/v1/sync").await?;
    ensure!(status["enabled"] == false, "{status}");
    ensure!(scene.node.run(&["sync", "now", "x"]).await.is_err());
    project.push(&scene.node).await?;
    scene.released(&state).await?;
    ensure!(project.host.count() == 0);
    Ok(())
}
