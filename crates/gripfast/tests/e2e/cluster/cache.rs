//! Packs that a node has on its disk, and those that it fetches when somebody asks.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use grip_testkit::{LocalProject, S3Fault, WorkTree, remote::Gate, until_ok, until_true};

use super::{
    failover::go_on,
    scene::{Cluster, Packs, missing_packs},
};

/// How often each object was asked for, of those that hold files of packs.
fn fetches(cluster: &Cluster) -> BTreeMap<String, usize> {
    let mut fetches = BTreeMap::new();
    for path in cluster.s3().requests("GET") {
        if path.contains("/packs/packs/") {
            *fetches.entry(path).or_default() += 1;
        }
    }
    fetches
}

/// Hits and misses of a node, once it has told of so many requests.
async fn cache_use(cluster: &Cluster, at: usize, requests: u64) -> Result<(u64, u64)> {
    until_ok("the node tells of its requests", async || {
        let node = cluster.status().await?["nodes"][at].clone();
        let count = |name: &str| {
            node[name]
                .as_u64()
                .with_context(|| format!("no {name}: {node}"))
        };
        let (hits, misses) = (count("cache_hits")?, count("cache_misses")?);
        ensure!(hits + misses <= requests, "{node}");
        Ok((hits + misses == requests).then_some((hits, misses)))
    })
    .await
}

/// A node with an empty disk is ready before it has a single pack: it lists refs, holds clones until their
/// packs are there, and fetches each file once for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_serves_before_it_has_fetched_everything() -> Result<()> {
    let mut cluster = Cluster::start_on(Packs::s3().await?, 1).await?;
    let local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 60).await?;
    let gate = Gate::default();
    cluster.s3().fault(Some(S3Fault::Held(gate.clone())));
    cluster.join().await?;
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&("refs/heads/main".to_owned(), local.tip.clone())));
    ensure!(!missing_packs(&cluster.nodes[1].data_dir().join("git")).is_empty());
    let url = local.url(&cluster.nodes[1]);
    let clones = join_all((0..6).map(|_| WorkTree::clone(&url, &[])));
    let opening = async {
        let used = cache_use(&cluster, 1, 6).await;
        gate.open();
        used
    };
    let (clones, used) = tokio::join!(clones, opening);
    ensure!(used? == (0, 6), "a clone did not wait");
    for clone in clones {
        ensure!(clone?.tip("HEAD")? == local.tip);
    }
    let fetches = fetches(&cluster);
    ensure!(fetches.len() == 2, "a pack and its index: {fetches:?}");
    ensure!(fetches.values().all(|count| *count == 1), "{fetches:?}");
    cluster.s3().fault(None);
    WorkTree::clone(&url, &[]).await?;
    ensure!(cache_use(&cluster, 1, 7).await? == (1, 6));
    let database = cluster.server.url();
    let status = ["cluster", "status", "--database-url", &database];
    let shown = cluster.nodes[0].run(&status).await?;
    ensure!(shown.contains("14.3% of 7"), "{shown}");
    cluster.stop_and_compare().await
}

/// While the object store gives nothing, a clone of what is not on the disk is told to try again, and the
/// next succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn a_clone_whose_packs_cannot_be_had_is_told_to_try_again() -> Result<()> {
    let mut cluster = Cluster::start_on(Packs::s3().await?, 1).await?;
    let local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 60).await?;
    cluster.s3().fault(Some(S3Fault::Unavailable));
    cluster.join().await?;
    let url = local.url(&cluster.nodes[1]);
    let error = match WorkTree::clone(&url, &[]).await {
        Ok(_) => anyhow::bail!("a clone without objects"),
        Err(error) => format!("{error:#}"),
    };
    ensure!(error.contains("503"), "{error}");
    cluster.s3().fault(None);
    until_ok("the clone succeeds", async || {
        Ok(WorkTree::clone(&url, &[]).await.ok())
    })
    .await?;
    cluster.stop_and_compare().await
}

/// Nodes that keep next to nothing on their disks serve and take everything: what was evicted comes back for
/// clones, and for pushes and events at the leader that rest on it, also when another leads.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_with_small_disks_serve_everything() -> Result<()> {
    let mut cluster = Cluster::start_on(Packs::s3().await?, 0).await?;
    cluster.cache_bytes = Some(1);
    for _ in 0..3 {
        cluster.join().await?;
    }
    let mut projects = Vec::new();
    for name in ["a", "b", "c"] {
        let local = LocalProject::new(name)?;
        cluster.publish(&local, 1, 900).await?;
        projects.push(local);
    }
    for round in 0..2 {
        for node in &cluster.nodes {
            let root = node.data_dir().join("git");
            until_true("packs are evicted", || missing_packs(&root).len() == 3).await?;
        }
        for (at, local) in projects.iter_mut().enumerate() {
            let urls = cluster.nodes.iter().map(|node| local.url(node));
            let clones = urls.map(|url| async move { WorkTree::clone(&url, &[]).await });
            for clone in try_join_all(clones).await? {
                ensure!(clone.tip("HEAD")? == local.tip);
            }
            go_on(&cluster, local, at, 800 - round * 10).await?;
            cluster.refs_everywhere(local).await?;
        }
    }
    let leader = cluster.leader().await?;
    cluster.nodes[leader].kill();
    let other = (leader + 1) % 3;
    for local in &mut projects {
        go_on(&cluster, local, other, 500).await?;
        let clone = WorkTree::clone(&local.url(&cluster.nodes[other]), &[]).await?;
        ensure!(clone.tip("HEAD")? == local.tip);
    }
    cluster.nodes[leader].launch().await?;
    for local in &projects {
        cluster.refs_everywhere(local).await?;
        let clone = WorkTree::clone(&local.url(&cluster.nodes[leader]), &[]).await?;
        clone.git(["fsck", "--full", "--strict"])?;
    }
    cluster.stop_and_compare().await
}

/// Killed while it fetches packs or evicts some, a node serves all of them when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_killed_while_it_fetches_or_evicts_loses_nothing() -> Result<()> {
    for point in ["git.cache.fetched", "git.cache.listed", "git.cache.evicted"] {
        let mut cluster = Cluster::start(1).await?;
        let local = LocalProject::new("x")?;
        cluster.publish(&local, 0, 60).await?;
        cluster.cache_bytes = Some(1);
        let node = cluster.prepare()?;
        node.set_env("GRIPFAST_FAULT", &format!("{point}:1"));
        node.launch().await?;
        let url = local.url(&cluster.nodes[1]);
        // Its client may see the kill.
        let _ = WorkTree::clone(&url, &[]).await;
        let node = &mut cluster.nodes[1];
        node.died().await.with_context(|| point.to_owned())?;
        node.remove_env("GRIPFAST_FAULT");
        node.launch().await?;
        let clone = WorkTree::clone(&url, &[]).await;
        let clone = clone.with_context(|| point.to_owned())?;
        ensure!(clone.tip("HEAD")? == local.tip);
        clone.git(["fsck", "--full", "--strict"])?;
        cluster.stop_and_compare().await?;
    }
    Ok(())
}
