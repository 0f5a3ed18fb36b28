//! Collection in a cluster: objects and packs that nobody needs leave the nodes and the object store.

use anyhow::{Result, bail, ensure};
use grip_testkit::{Author, LocalProject, WorkTree, git, until_ok};
use nostr::prelude::Event;

use super::{
    failover::go_on,
    scene::{Cluster, Packs},
};

on_both_stores! {
    what_nobody_needs_leaves_the_nodes_and_the_object_store
}

/// Everything is due soon: snapshots, collections, and the removal of what nothing names.
const SOON: [(&str, &str); 5] = [
    ("GRIPFAST_CLUSTER_SNAPSHOT_RECORDS", "4"),
    ("GRIPFAST_CLUSTER_AWAY", "4s"),
    ("GRIPFAST_CLUSTER_KEEP_PACKS", "1s"),
    ("GRIPFAST_KEEP_UNREACHABLE", "1s"),
    ("GRIPFAST_PURGATORY_SWEEP_INTERVAL", "1s"),
];

const MIB: u64 = 1 << 20;
/// Pushes within which everything that is due has been done, also on a busy machine.
const MAX_ROUNDS: u64 = 500;

/// A project with a pull request of two MiB, whose tip and event are returned.
async fn with_pull_request(
    cluster: &Cluster,
    at: usize,
) -> Result<(LocalProject, Author, String, Event)> {
    let local = LocalProject::new("x")?;
    until_ok("it is published", async || {
        Ok(cluster.publish(&local, at, 9000).await.ok())
    })
    .await?;
    let contributor = Author::new();
    let url = local.url(&cluster.nodes[at]);
    local.tree.git(["checkout", "-q", "-B", "feature"])?;
    let tip = local.tree.commit_noise(2, 1)?;
    let pr = contributor.pull_request(&local.owner, &local.identifier, &tip, &url);
    let name = format!("feature:refs/nostr/{}", pr.id.to_hex());
    // Its clients may see a kill: they try again.
    until_ok("the data is taken", async || {
        let pushed = local.tree.push(&url, &[&name]).await?;
        Ok(pushed.ok.then_some(()))
    })
    .await?;
    until_ok("the pull request is taken", async || {
        let mut relay = cluster.nodes[at].connect().await?;
        Ok(relay.publish(&pr).await?.accepted.then_some(()))
    })
    .await?;
    local.tree.git(["checkout", "-q", "main"])?;
    Ok((local, contributor, tip, pr))
}

/// Goes on with a project until the object store has less than a MiB: records that name what was
/// collected have to leave the log, and the snapshots that have it have to be replaced.
async fn until_small(cluster: &Cluster, local: &mut LocalProject, at: usize) -> Result<()> {
    for round in 0..MAX_ROUNDS {
        go_on(cluster, local, at, 7000 - round).await?;
        if cluster.stored_bytes()? < MIB {
            return Ok(());
        }
    }
    bail!("{} bytes are still stored", cluster.stored_bytes()?)
}

/// Says whether a node has an object on its disk.
async fn has(cluster: &Cluster, local: &LocalProject, at: usize, oid: &str) -> Result<bool> {
    let directory = local.directory(&cluster.nodes[at]);
    Ok(git::run(&directory, ["cat-file", "-e", oid]).await?.ok)
}

/// The data of a pull request that was deleted leaves every node and the object store, after a while; who
/// joins later has all that is left, and each node may lead.
async fn what_nobody_needs_leaves_the_nodes_and_the_object_store(packs: Packs) -> Result<()> {
    let mut cluster = Cluster::start_on_with(packs, 2, &SOON).await?;
    let (mut local, contributor, tip, pr) = with_pull_request(&cluster, 0).await?;
    for at in [0, 1] {
        until_ok("the data is on the disk", async || {
            Ok(has(&cluster, &local, at, &tip).await?.then_some(()))
        })
        .await?;
    }
    ensure!(cluster.stored_bytes()? > 2 * MIB);
    let mut relay = cluster.nodes[0].connect().await?;
    let deletion = contributor.delete_events(&[pr.id]);
    relay.publish_ok(&deletion).await?;
    until_small(&cluster, &mut local, 1).await?;
    for at in [0, 1] {
        until_ok("the data leaves the disk", async || {
            Ok((!has(&cluster, &local, at, &tip).await?).then_some(()))
        })
        .await?;
    }
    let status = cluster.status().await?;
    let stored = status["object_store"]["bytes"].as_u64();
    ensure!(stored.is_some_and(|bytes| bytes > 0), "{status}");
    cluster.join().await?;
    cluster.refs_everywhere(&local).await?;
    let clone = WorkTree::clone(&local.url(&cluster.nodes[2]), &[]).await?;
    ensure!(clone.tip("HEAD")? == local.tip);
    clone.git(["fsck", "--full", "--strict"])?;
    // The same data, pushed again to the next leader, is taken and served by all.
    cluster.nodes[0].kill();
    let url = local.url(&cluster.nodes[1]);
    let again = contributor.pull_request(&local.owner, &local.identifier, &tip, &url);
    let name = format!("feature:refs/nostr/{}", again.id.to_hex());
    until_ok("the push is taken", async || {
        let pushed = local.tree.push(&url, &[&name]).await?;
        Ok(pushed.ok.then_some(()))
    })
    .await?;
    let mut relay = cluster.nodes[1].connect().await?;
    relay.publish_ok(&again).await?;
    cluster.nodes[0].launch().await?;
    for at in 0..3 {
        until_ok("the data is on the disk", async || {
            Ok(has(&cluster, &local, at, &tip).await?.then_some(()))
        })
        .await?;
    }
    cluster.stop_and_compare().await
}

/// A test of its own for each step of a leader, from the collection of objects to the removal of files.
macro_rules! killed_at {
    ($($name:ident: $point:literal,)*) => {
        mod leader_killed {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() -> anyhow::Result<()> {
                super::leader_killed_at($point).await
            })*
        }
    };
}

killed_at! {
    when_new_packs_are_stored: "git.collect.stored",
    when_they_are_logged: "git.collect.logged",
    when_its_old_packs_are_gone: "git.collect.removed",
    when_what_nothing_names_is_noted: "cluster.sweep_noted:3",
    when_it_is_removed: "cluster.swept",
}

/// Killed between the upload of new packs and their record, between the record and its own files, or between
/// the look through the object store and a removal, a leader loses nothing, and what is left is removed by the
/// next one.
async fn leader_killed_at(point: &str) -> Result<()> {
    let mut cluster = Cluster::start_with(0, &SOON).await?;
    let leader = cluster.prepare()?;
    leader.set_env("GRIPFAST_FAULT", point);
    leader.launch().await?;
    cluster.join().await?;
    let (mut local, contributor, tip, pr) = with_pull_request(&cluster, 1).await?;
    let deletion = contributor.delete_events(&[pr.id]);
    until_ok("the deletion is taken", async || {
        let mut relay = cluster.nodes[1].connect().await?;
        Ok(relay.publish(&deletion).await?.accepted.then_some(()))
    })
    .await?;
    for round in 0..MAX_ROUNDS {
        if !cluster.nodes[0].is_running() {
            break;
        }
        go_on(&cluster, &mut local, 1, 8000 - round).await?;
    }
    cluster.nodes[0].died().await?;
    cluster.nodes[0].remove_env("GRIPFAST_FAULT");
    cluster.nodes[0].launch().await?;
    until_small(&cluster, &mut local, 1).await?;
    cluster.refs_everywhere(&local).await?;
    for at in [0, 1] {
        until_ok("the data leaves the disk", async || {
            Ok((!has(&cluster, &local, at, &tip).await?).then_some(()))
        })
        .await?;
        let clone = WorkTree::clone(&local.url(&cluster.nodes[at]), &[]).await?;
        ensure!(clone.tip("HEAD")? == local.tip);
    }
    cluster.stop_and_compare().await
}

/// A node that died while it took a snapshot over goes on with it, or with a newer one, whatever was
/// collected meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_with_an_older_snapshot_has_all_packs_it_needs() -> Result<()> {
    let mut cluster = Cluster::start_with(1, &SOON).await?;
    let (mut local, contributor, tip, pr) = with_pull_request(&cluster, 0).await?;
    until_ok("there is a snapshot", async || {
        Ok(cluster.status().await?["snapshot"].as_u64())
    })
    .await?;
    let joining = cluster.prepare()?;
    joining.set_env("GRIPFAST_FAULT", "cluster.snapshot_applied:1");
    joining.spawn()?;
    joining.died().await?;
    let deletion = contributor.delete_events(&[pr.id]);
    let mut relay = cluster.nodes[0].connect().await?;
    relay.publish_ok(&deletion).await?;
    go_on(&cluster, &mut local, 0, 8500).await?;
    // With the older of two snapshots, while the objects are being collected.
    let joining = &mut cluster.nodes[1];
    joining.set_env("GRIPFAST_FAULT", "cluster.snapshot_applied:2");
    joining.spawn()?;
    joining.died().await?;
    until_small(&cluster, &mut local, 0).await?;
    cluster.nodes[1].remove_env("GRIPFAST_FAULT");
    until_ok("it serves", async || {
        // One that finds the log trimmed ends, and begins with a newer snapshot when it is started again.
        if !cluster.nodes[1].is_running() {
            cluster.nodes[1].spawn()?;
        }
        let ready = cluster.nodes[1].get("/readyz").await.ok();
        Ok(ready.filter(|ready| ready.status == 200))
    })
    .await?;
    cluster.refs_everywhere(&local).await?;
    let clone = WorkTree::clone(&local.url(&cluster.nodes[1]), &[]).await?;
    ensure!(clone.tip("HEAD")? == local.tip);
    ensure!(!has(&cluster, &local, 1, &tip).await?);
    cluster.stop_and_compare().await
}
