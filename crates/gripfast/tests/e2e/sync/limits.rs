//! The limits of hosts, as the hosts count requests.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Project, RemoteHost, WorkTree,
    remote::{Behaviour, Gate, Speaks},
    until_ok, until_true,
};
use serde_json::Value;

use crate::sync::scene::Scene;

const MINUTE: Duration = Duration::from_secs(60);

/// G02-58, with half of the commands of a minute that it allows.
#[tokio::test]
async fn g02_58_a_host_sees_five_at_once_and_thirty_in_a_minute() -> Result<()> {
    let mut scene = Scene::new().await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    host.host(&tree, "all.git")?;
    let gate = Gate::default();
    host.behave(Behaviour::Hold(gate.clone()));
    let names = (0..36).map(|n| format!("x-{n}"));
    scene.hold_many(&host, &tip, names).await?;
    until_true("five are under way", || host.in_flight() == 5).await?;
    // All others have had their chance and wait for one of the five.
    until_ok("the rest waits", async || {
        let started = host_field(&scene, "127.0.0.2", "started").await?;
        Ok((started == 5).then_some(()))
    })
    .await?;
    gate.open();
    scene.has_served(&[30618], 30).await?;

    // The other six wait for the minute to pass.
    ensure!(host_field(&scene, "127.0.0.2", "started").await? == 30);
    let status = scene.node.json("/api/v1/sync").await?;
    ensure!(status["queue_length"] == 6, "{status}");
    ensure!(scene.count(&[30618]).await? == 30);
    ensure!(host.count() == 30 && host.max_in_window(MINUTE) == 30);
    ensure!(host.max_in_flight() == 5, "{}", host.max_in_flight());
    Ok(())
}

/// What the node says about a host.
async fn host_field(scene: &Scene, domain: &str, field: &str) -> Result<u64> {
    let status = scene.node.json("/api/v1/sync").await?;
    let hosts = status["hosts"].as_array().context("no hosts")?;
    let host = hosts.iter().find(|host| host["domain"] == domain);
    Ok(host
        .and_then(|host| host[field].as_u64())
        .unwrap_or_default())
}

#[tokio::test]
async fn one_host_may_be_given_limits_of_its_own() -> Result<()> {
    let limits = ("GRIPFAST_SYNC_HOST_LIMITS", "127.0.0.2=1/2");
    let mut scene = Scene::with(&[limits]).await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let small = RemoteHost::start("127.0.0.2").await?;
    let other = RemoteHost::start("127.0.0.3").await?;
    for host in [&small, &other] {
        host.host(&tree, "all.git")?;
        let names = (0..4).map(|n| format!("{}-{n}", host.domain()));
        scene.hold_many(host, &tip, names).await?;
    }
    scene.has_served(&[30618], 6).await?;
    ensure!(other.count() == 4 && small.count() == 2);
    ensure!(small.max_in_flight() == 1);
    Ok(())
}

/// A host that asks for patience is not asked until that is over, however many wait for it.
async fn silent_until_retry_after(status: u16) -> Result<()> {
    const SILENCE: u64 = 3;
    let mut scene = Scene::new().await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let host = RemoteHost::start("127.0.0.2").await?;
    host.host(&tree, "all.git")?;
    host.script(
        "first.git",
        [Behaviour::retry_after(status, SILENCE), Behaviour::Serve],
    );
    let projects = [Project::new("first"), Project::new("second")];
    let mut states = Vec::new();
    for (n, project) in projects.iter().enumerate() {
        let name = format!("{}.git", project.identifier);
        let url = host.alias("all.git", &name)?;
        scene.announce(project, &[url]).await?;
        states.push(scene.hold_state(project, &tip).await?);
        if n == 0 {
            let tried = scene.has_tried(&states[0], 1).await?;
            ensure!(tried[0].outcome.contains(&status.to_string()), "{tried:?}");
        }
    }
    // Not even when the operator is impatient.
    scene.sync_now(&projects[0]).await?;
    for state in &states {
        scene.released(state).await?;
    }
    let requests = host.requests();
    ensure!(requests.len() == 3, "{requests:?}");
    let silence = requests[1].at - requests[0].at;
    ensure!(silence >= Duration::from_secs(SILENCE), "{silence:?}");
    Ok(())
}

#[tokio::test]
async fn a_429_or_503_with_retry_after_is_followed_by_silence_until_then() -> Result<()> {
    let statuses = [429, 503].map(silent_until_retry_after);
    futures_util::future::try_join_all(statuses).await.map(drop)
}

#[tokio::test]
async fn every_refusal_is_told_and_costs_one_request() -> Result<()> {
    let mut scene = Scene::new().await?;
    let tip = "ab".repeat(20);
    let mut waiting = Vec::new();
    for (n, status) in [401, 403, 404, 410, 429, 500, 502, 503]
        .into_iter()
        .enumerate()
    {
        let host = RemoteHost::start(&format!("127.0.0.{}", n + 2)).await?;
        host.behave(Behaviour::status(status));
        let project = Project::new(&format!("x-{status}"));
        scene.announce(&project, &[host.clone_url("x.git")]).await?;
        waiting.push((status, host, scene.hold_state(&project, &tip).await?));
    }
    for (status, host, state) in &waiting {
        let tried = scene.has_tried(state, 1).await?;
        let [one] = tried.as_slice() else {
            anyhow::bail!("{status}: {tried:?}");
        };
        ensure!(!one.is_success && one.oids_fetched == 0, "{one:?}");
        ensure!(one.outcome.contains(&status.to_string()), "{one:?}");
        ensure!(one.url == host.clone_url("x.git"));
        ensure!(host.count() == 1, "{status}: {:?}", host.requests());
        let credentials = host.requests()[0].headers.clone();
        for header in ["authorization", "cookie", "referer"] {
            ensure!(!credentials.contains_key(header), "{header} was sent");
        }
    }
    ensure!(scene.count(&[30618]).await? == 0);
    Ok(())
}

/// In place of the plan of G02-57 and the memory of G02-59 (docs/decisions/0112).
#[tokio::test]
async fn half_the_tips_missing_costs_one_request_an_attempt() -> Result<()> {
    let (mut scene, project) = Scene::with_remote(&[]).await?;
    let (host, tree) = (&project.host, &project.tree);
    tree.git(["checkout", "-q", "-b", "later"])?;
    let later = tree.commit("later", "not there yet")?;
    let refs = [
        ("refs/heads/main", &*project.tip),
        ("refs/heads/later", &later),
    ];
    let state = project.project.state(&refs);
    scene
        .announce(&project, std::slice::from_ref(&project.url))
        .await?;
    scene.hold(&state).await?;
    let attempts = async |scene: &Scene, wanted: u64| {
        until_ok("the attempt has ended", async || {
            let status = scene.node.json("/api/v1/sync").await?;
            let entry: &Value = &status["queue"][0];
            let idle = entry["in_progress"] == false;
            Ok((idle && entry["attempts"].as_u64() >= Some(wanted)).then_some(()))
        })
        .await
    };
    attempts(&scene, 1).await?;
    // In vain for both, which it has, and that; the last leaves nothing to ask.
    ensure!(host.count() == 3, "{:?}", host.requests());
    ensure!(!scene.serves(&state).await?);
    for attempt in 2..=4 {
        scene.sync_now(&project).await?;
        attempts(&scene, attempt).await?;
        ensure!(host.count() as u64 <= 2 + attempt, "{:?}", host.requests());
    }
    host.take(tree, "x.git", &["later"])?;
    scene.sync_now(&project).await?;
    scene.released(&state).await?;
    scene.is_clean(&project).await
}

#[tokio::test]
async fn an_old_host_is_asked_in_its_own_way_and_remembered() -> Result<()> {
    let mut scene = Scene::new().await?;
    let host = RemoteHost::speaking("127.0.0.2", Speaks::V0).await?;
    let tree = WorkTree::with_commit()?;
    let first = tree.tip("HEAD")?;
    let second = tree.commit("more", "1")?;
    let url = host.host(&tree, "x.git")?;
    let project = Project::new("x");
    scene.announce(&project, &[url]).await?;
    // No ref of the host points to it: it is in what its branch brings.
    let old = project.state_at(&[("refs/heads/main", &first)], 20);
    scene.hold(&old).await?;
    scene.released(&old).await?;
    ensure!(host.count() == 3, "{:?}", host.requests());
    // What came with it was not wanted.
    scene.lacks(&project, &second).await?;
    host.forget();

    let new = project.state_at(&[("refs/heads/main", &second)], 10);
    scene.hold(&new).await?;
    scene.released(&new).await?;
    let asked: Vec<_> = host
        .requests()
        .into_iter()
        .map(|seen| seen.action)
        .collect();
    ensure!(asked == ["info/refs", "git-upload-pack"], "{asked:?}");
    scene.is_clean(&project).await
}
