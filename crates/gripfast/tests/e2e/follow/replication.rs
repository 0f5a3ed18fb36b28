//! Which listed servers have the effective state of a repository, and since when not.

use anyhow::{Context as _, Result};
use grip_testkit::{LocalProject, Node, http::must_contain, until_ok};
use serde_json::Value;

use super::scene::{all_served, announce, node_with, publish, push};

/// Settings under which servers are looked at soon.
const SOON: &[(&str, &str)] = &[("NGIT_SYNC_DISCONNECT_CHECK_INTERVAL_SECS", "1")];

/// Waits until `node` says of another server what `is_so` wants to hear.
async fn until_replica(
    node: &Node,
    project: &LocalProject,
    url: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let subject = format!("{}/{}", project.owner.npub(), project.identifier);
    let looked = until_ok("the replica is as it should be", async || {
        let explained = node.explain(&subject).await?;
        let replicas = explained["replicas"].as_array().cloned();
        let mut replicas = replicas.unwrap_or_default().into_iter();
        Ok(replicas.find(|it| it["url"] == url && is_so(it)))
    });
    let found = looked.await;
    let explained = node.explain(&subject).await?;
    found.with_context(|| format!("{url}: {explained:#}\nlog:\n{}", node.log()))
}

#[tokio::test]
async fn a_node_says_which_listed_servers_have_the_state_and_since_when_not() -> Result<()> {
    let (mut a, mut b) = (node_with(SOON).await?, node_with(SOON).await?);
    let mut project = LocalProject::new("tides")?;
    let announcement = announce(&project, &[&a, &b]).await?;
    let state = push(&project, &a, 50).await?;
    all_served(&b, &[&announcement, &state]).await?;
    let (relay, clone) = (b.relay_url(), project.url(&b));
    let is = |status: &'static str| move |it: &Value| it["status"] == status;
    let current = until_replica(&a, &project, &relay, is("current")).await?;
    anyhow::ensure!(current["kind"] == "relay" && current["since"].is_i64());
    let current = until_replica(&a, &project, &clone, is("current")).await?;
    anyhow::ensure!(current["kind"] == "git" && current["checked_at"].is_i64());
    // Nothing but the look at the clone URL was downloaded here, and it is counted.
    let sync = a.json("/api/v1/sync").await?;
    let received = sync["received_bytes_total"].as_u64();
    anyhow::ensure!(received > Some(0), "{received:?}");
    let path = project.path();
    must_contain(&a.get(&path).await?.text(), &[&relay, "has the same state"]);
    let name = format!("{}/{}", project.owner.npub(), project.identifier);
    let printed = a.run(&["explain", &name]).await?;
    must_contain(&printed, &["other servers", &format!("{relay}  current")]);
    let metrics = a.get("/metrics").await?.text();
    must_contain(
        &metrics,
        &[
            "replication_relay_replicas{status=\"current\"} 1",
            "replication_git_replicas{status=\"current\"} 1",
            "replication_repositories_alone 0",
        ],
    );
    b.kill();
    until_replica(&a, &project, &relay, is("unreachable")).await?;
    // It comes back and does not follow any more: the next state stays away from it.
    b.set_env("GRIPFAST_SYNC_ENABLED", "false");
    b.launch().await?;
    project.tip = project.tree.commit("more", "1")?;
    publish(&a, &project.state(0)).await?;
    project.push(&a).await?;
    let behind = until_replica(&a, &project, &relay, is("behind")).await?;
    anyhow::ensure!(behind["behind_seconds"].as_u64() > Some(0), "{behind}");
    let state_at = state.created_at.as_secs();
    anyhow::ensure!(behind["state_at"].as_u64() == Some(state_at), "{behind}");
    // What is known is known after a kill, too.
    let saved = behind["since"].clone();
    until_ok("it is saved", async || {
        let totals = &a.json("/api/v1/sync").await?["replication"];
        Ok((totals["relays"]["behind"] == 1).then_some(()))
    })
    .await?;
    a.stop().await?;
    a.launch().await?;
    let again = until_replica(&a, &project, &relay, is("behind")).await?;
    anyhow::ensure!(again["since"] == saved, "{again} is not {behind}");
    must_contain(&a.get(&path).await?.text(), &["behind, since"]);
    Ok(())
}
