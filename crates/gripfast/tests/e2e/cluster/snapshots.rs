use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, LocalProject, WorkTree, until_ok};

use super::{failover::go_on, scene::Cluster};

/// A snapshot after every few records, and no patience with nodes that are away.
const SOON: [(&str, &str); 2] = [
    ("GRIPFAST_CLUSTER_SNAPSHOT_RECORDS", "4"),
    ("GRIPFAST_CLUSTER_AWAY", "4s"),
];

/// Waits until all that is known at this moment, but for the last few records, is in a snapshot alone.
async fn trimmed(cluster: &Cluster) -> Result<()> {
    let number = |value: &serde_json::Value| value.as_u64().context("no number");
    let end = number(&cluster.status().await?["records"])?;
    until_ok("the log is trimmed", async || {
        let trimmed = number(&cluster.status().await?["trimmed"])?;
        Ok((trimmed > 0 && trimmed + 4 > end).then_some(()))
    })
    .await
}

/// A project with a branch, a pull request, a tip that was pushed ahead of its event, and a second state.
async fn grown_project(cluster: &Cluster, name: &str) -> Result<LocalProject> {
    let mut local = LocalProject::new(name)?;
    cluster.publish(&local, 0, 600).await?;
    go_on(cluster, &mut local, 0, 500).await?;
    let url = local.url(&cluster.nodes[0]);
    let contributor = Author::new();
    for (number, is_published) in [(1, true), (2, false)] {
        let tip = local.tree.commit("feature", &number.to_string())?;
        let pr = contributor.pull_request(&local.owner, &local.identifier, &tip, &url);
        let name = format!("HEAD:refs/nostr/{}", pr.id.to_hex());
        local.tree.push_ok(&url, &[&name]).await?;
        if is_published {
            let mut relay = cluster.nodes[0].connect().await?;
            ensure!(relay.publish_ok(&pr).await?.is_served());
        }
    }
    local
        .tree
        .git(["reset", "-q", "--hard", local.tip.as_str()])?;
    Ok(local)
}

/// A node that begins with a snapshot is as one that read the whole log, archived repositories, replaced
/// and deleted events and tips without an event included.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_begins_with_a_snapshot_is_as_one_that_read_the_log() -> Result<()> {
    let mut cluster = Cluster::start_with(2, &SOON).await?;
    let mut first = grown_project(&cluster, "a").await?;
    let second = grown_project(&cluster, "naïve name").await?;
    let mut relay = cluster.nodes[0].connect().await?;
    let deleted = LocalProject::new("b")?;
    cluster.publish(&deleted, 0, 600).await?;
    let deletion = deleted.owner.delete_address(30617, &deleted.identifier);
    relay.publish_ok(&deletion).await?;
    trimmed(&cluster).await?;
    go_on(&cluster, &mut first, 0, 400).await?;
    cluster.join().await?;
    for local in [&first, &second] {
        cluster.refs_everywhere(local).await?;
        let clone = WorkTree::clone(&local.url(&cluster.nodes[2]), &[]).await?;
        ensure!(clone.tip("HEAD")? == local.tip);
    }
    // It goes on from there, and may lead.
    go_on(&cluster, &mut first, 2, 300).await?;
    cluster.stop_and_compare().await
}

/// Steps of a leader that makes a snapshot, makes it known, and trims the log.
const OF_LEADER: [&str; 4] = [
    "cluster.snapshot_half",
    "cluster.snapshot_stored",
    "cluster.snapshot_recorded",
    "cluster.trimmed",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_while_it_makes_a_snapshot_loses_nothing() -> Result<()> {
    for point in OF_LEADER {
        leader_killed_at(point)
            .await
            .with_context(|| format!("killed at {point}"))?;
    }
    Ok(())
}

async fn leader_killed_at(point: &str) -> Result<()> {
    let mut cluster = Cluster::start_with(0, &SOON).await?;
    let leader = cluster.prepare()?;
    leader.set_env("GRIPFAST_FAULT", point);
    leader.launch().await?;
    cluster.join().await?;
    let mut local = LocalProject::new("x")?;
    // Its clients may see the kill: they try again.
    until_ok("it is published", async || {
        Ok(cluster.publish(&local, 1, 600).await.ok())
    })
    .await?;
    go_on(&cluster, &mut local, 1, 500).await?;
    cluster.nodes[0].died().await?;
    cluster.nodes[0].remove_env("GRIPFAST_FAULT");
    cluster.nodes[0].launch().await?;
    go_on(&cluster, &mut local, 1, 400).await?;
    trimmed(&cluster).await?;
    cluster.join().await?;
    cluster.refs_everywhere(&local).await?;
    cluster.stop_and_compare().await
}

/// A node that dies while it takes a snapshot over takes it over again; or a newer one, if that is gone by
/// then, without anything of the older.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_while_it_takes_a_snapshot_over_begins_again() -> Result<()> {
    let mut cluster = Cluster::start_with(1, &SOON).await?;
    let mut first = grown_project(&cluster, "a").await?;
    let mut relay = cluster.nodes[0].connect().await?;
    let deleted = LocalProject::new("b")?;
    cluster.publish(&deleted, 0, 600).await?;
    trimmed(&cluster).await?;
    let joining = cluster.prepare()?;
    for hit in [1, 3, 5] {
        joining.set_env("GRIPFAST_FAULT", &format!("cluster.snapshot_applied:{hit}"));
        joining.spawn()?;
        joining.died().await?;
    }
    let deletion = deleted.owner.delete_address(30617, &deleted.identifier);
    relay.publish_ok(&deletion).await?;
    for age in [400, 300, 200] {
        go_on(&cluster, &mut first, 0, age).await?;
        trimmed(&cluster).await?;
    }
    cluster.nodes[1].remove_env("GRIPFAST_FAULT");
    cluster.nodes[1].launch().await?;
    cluster.refs_everywhere(&first).await?;
    cluster.stop_and_compare().await
}

/// A node that was away for longer than the log is kept begins with the newest snapshot by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_away_for_too_long_begins_with_a_snapshot() -> Result<()> {
    let mut cluster = Cluster::start_with(2, &SOON).await?;
    let mut first = grown_project(&cluster, "a").await?;
    let gone = LocalProject::new("b")?;
    cluster.publish(&gone, 0, 600).await?;
    cluster.settle().await?;
    ensure!(cluster.nodes[1].stop().await?.success());
    let deletion = gone.owner.delete_address(30617, &gone.identifier);
    let mut relay = cluster.nodes[0].connect().await?;
    relay.publish_ok(&deletion).await?;
    go_on(&cluster, &mut first, 0, 400).await?;
    trimmed(&cluster).await?;
    cluster.nodes[1].launch().await?;
    let log = cluster.nodes[1].log();
    ensure!(
        log.contains("away for longer than the cluster's log is kept"),
        "{log}"
    );
    cluster.refs_everywhere(&first).await?;
    cluster.stop_and_compare().await
}
