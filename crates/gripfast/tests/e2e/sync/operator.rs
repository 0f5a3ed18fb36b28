//! The operator's view of sync: commands, JSON and metrics.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Project, RemoteHost, WorkTree, node, remote::Behaviour, until_ok};
use nostr::prelude::Event;
use serde_json::Value;

use crate::sync::scene::Scene;

/// A state that waits for a host that refused once.
async fn refused() -> Result<(Scene, RemoteHost, Project, Event, String)> {
    let mut scene = Scene::new().await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let url = host.host(&tree, "x.git")?;
    host.behave(Behaviour::status(404));
    let project = Project::new("x");
    scene.announce(&project, &[url]).await?;
    let state = scene.hold_state(&project, &tip).await?;
    scene.has_tried(&state, 1).await?;
    Ok((scene, host, project, state, tip))
}

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("no JSON: {text}"))
}

#[tokio::test]
async fn the_queue_the_hosts_and_what_waits_are_shown() -> Result<()> {
    let (scene, host, _, state, tip) = refused().await?;
    let id = state.id.to_hex();
    let table = scene.node.run(&["sync", "status"]).await?;
    ensure!(table.contains("127.0.0.2"), "{table}");
    let status = parse(&scene.node.run(&["sync", "status", "--json"]).await?)?;
    ensure!(
        status["enabled"] == true && status["queue_length"] == 1,
        "{status}"
    );
    ensure!(status["queue"][0]["identifier"] == "x", "{status}");
    ensure!(
        status["tried"][0]["url"] == host.clone_url("x.git"),
        "{status}"
    );
    ensure!(status["hosts"][0]["requests_total"] == 1, "{status}");

    let table = scene.node.run(&["purgatory", "ls"]).await?;
    ensure!(table.contains(&id[..8]) && table.contains('x'), "{table}");
    let list = parse(&scene.node.run(&["purgatory", "ls", "--json"]).await?)?;
    let waiting = list["waiting"].as_array().context("no list")?;
    let entry = waiting.iter().find(|entry| entry["id"] == id.as_str());
    let entry = entry.with_context(|| format!("{id} is not in {list}"))?;
    ensure!(
        entry["class"] == "state" && entry["missing"] == 1,
        "{entry}"
    );
    ensure!(
        entry["attempts"] == 1 && entry["next_attempt"].is_i64(),
        "{entry}"
    );
    ensure!(
        entry["deadline"].as_i64() > entry["since"].as_i64(),
        "{entry}"
    );

    let said = scene.node.run(&["explain", &id]).await?;
    for part in [tip.as_str(), &host.clone_url("x.git"), "404"] {
        ensure!(said.contains(part), "{part} is not in {said}");
    }
    Ok(())
}

#[tokio::test]
async fn an_attempt_is_brought_forward_by_hand() -> Result<()> {
    let (mut scene, host, _, state, _) = refused().await?;
    scene
        .node
        .run(&["purgatory", "retry", &state.id.to_hex()])
        .await?;
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
    let (scene, _, _, state, _) = refused().await?;
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
    let (scene, host, _, state, _) = refused().await?;
    let token = scene.node.data_dir().join("admin.token");
    let mode = std::fs::metadata(&token)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let token = std::fs::read_to_string(token)?;
    let id = state.id.to_hex();
    let orders = [
        ("POST", "/api/v1/sync/x/now".to_owned()),
        ("POST", format!("/api/v1/purgatory/{id}/retry")),
        ("DELETE", format!("/api/v1/purgatory/{id}")),
    ];
    let right = format!("Authorization: Bearer {}\r\n", token.trim());
    let proofs = [
        (String::new(), "401"),
        ("Authorization: Bearer wrong\r\n".to_owned(), "403"),
        (format!("{right}X-Forwarded-For: 203.0.113.7\r\n"), "403"),
    ];
    for (method, path) in &orders {
        for (proof, status) in &proofs {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                 Content-Length: 0\r\n{proof}\r\n"
            );
            let answer = node::http_raw(scene.node.port(), request.as_bytes()).await?;
            let answer = String::from_utf8_lossy(&answer);
            let refused = ["401", "403"].contains(&&answer[9..12]);
            ensure!(refused, "{method} {path} ({status} expected): {answer}");
        }
    }
    ensure!(host.count() == 1, "{:?}", host.requests());
    let list = scene.node.json("/api/v1/purgatory").await?;
    ensure!(list.to_string().contains(&id), "{list}");
    Ok(())
}

#[tokio::test]
async fn metrics_tell_of_the_queue_and_of_each_host() -> Result<()> {
    let (scene, host, project, _, _) = refused().await?;
    host.behave(Behaviour::Serve);
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
        metrics = scene.node.get("/metrics").await?;
        let all = expected.iter().all(|line| metrics.contains(line));
        Ok(all.then_some(()))
    })
    .await
    .with_context(|| format!("{expected:#?} in {metrics}"))
}

#[tokio::test]
async fn a_node_with_sync_switched_off_asks_nobody() -> Result<()> {
    let mut scene = Scene::with(&[("GRIPFAST_SYNC_ENABLED", "false")]).await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let url = host.host(&tree, "x.git")?;
    let project = Project::new("x");
    scene.announce(&project, &[url]).await?;
    let state = scene.hold_state(&project, &tip).await?;
    let status = scene.node.json("/api/v1/sync").await?;
    ensure!(status["enabled"] == false, "{status}");
    ensure!(scene.node.run(&["sync", "now", "x"]).await.is_err());
    let pushed = tree.push(&project.url(&scene.node), &["main"]).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    scene.released(&state).await?;
    ensure!(host.count() == 0, "{:?}", host.requests());
    Ok(())
}
