//! Times of nodes that join with an empty disk: the short form of `cargo xtask campaign cluster-join`.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, WorkTree, git, until_ok};

use super::scene::{Cluster, Packs};

/// A size below which times say nothing.
const MEASURED_MIB: u64 = 100;
const MEASURED_REPOSITORIES: usize = 1_000;

fn from_env<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(otherwise)
}

/// The first clone at a node with an empty disk takes at most half as long again as to download the packs and
/// to clone from a disk that has them.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_clone_costs_a_download_and_a_clone() -> Result<()> {
    let size_mib = from_env("GRIPFAST_CLUSTER_CLONE_MIB", 8);
    let mut cluster = Cluster::start_on(Packs::s3().await?, 1).await?;
    let mut local = LocalProject::new("large")?;
    local.tip = local.tree.commit_noise(size_mib, 4)?;
    cluster.publish(&local, 0, 60).await?;
    // Nothing is fetched for its own sake.
    cluster.cache_bytes = Some(1 << 40);
    let is_measured = size_mib >= MEASURED_MIB;
    let (mut firsts, mut downloads, mut clones) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..if is_measured { 3 } else { 1 } {
        cluster.join().await?;
        let url = local.url(cluster.nodes.last().context("a node")?);
        let began = Instant::now();
        let clone = WorkTree::clone(&url, &["--bare"]).await?;
        firsts.push(began.elapsed());
        ensure!(clone.tip("HEAD")? == local.tip);
        let began = Instant::now();
        let bytes = cluster.s3().download().await?;
        downloads.push(began.elapsed());
        ensure!(bytes > size_mib << 20, "{bytes} bytes");
        let began = Instant::now();
        WorkTree::clone(&url, &["--bare"]).await?;
        clones.push(began.elapsed());
    }
    let shortest = |times: &[Duration]| times.iter().min().copied().context("no times");
    let floor = shortest(&downloads)? + shortest(&clones)?;
    let ratio = shortest(&firsts)?.as_secs_f64() / floor.as_secs_f64();
    println!(
        "{size_mib} MiB: first clones {firsts:?}, downloads {downloads:?}, clones {clones:?}: {ratio:.2}"
    );
    ensure!(!is_measured || ratio <= 1.5, "{ratio:.2}");
    cluster.cache_bytes = None;
    cluster.stop_and_compare().await
}

/// A node that joins knows every repository within a minute: it takes a snapshot over, and reads the log after
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn all_repositories_are_known_soon_after_joining() -> Result<()> {
    let count: usize = from_env("GRIPFAST_CLUSTER_REPOSITORIES", 10);
    // Each takes more than one record.
    let env = [("GRIPFAST_CLUSTER_SNAPSHOT_RECORDS", &*count.to_string())];
    let mut cluster = Cluster::start_on_with(Packs::s3().await?, 1, &env).await?;
    let mut projects = Vec::new();
    for number in 0..count {
        let local = LocalProject::new(&format!("project-{number}"))?;
        cluster.publish(&local, 0, 60).await?;
        projects.push(local);
    }
    let (trimmed, records) = until_ok("the first records are in a snapshot alone", async || {
        let status = cluster.status().await?;
        let number = |name: &str| status[name].as_u64().context("no number");
        let (trimmed, records) = (number("trimmed")?, number("records")?);
        Ok((trimmed >= count as u64).then_some((trimmed, records)))
    })
    .await?;
    let began = Instant::now();
    cluster.join().await?;
    let ready = began.elapsed();
    for local in &projects {
        let refs = git::ls_remote(&local.url(&cluster.nodes[1])).await?;
        ensure!(refs.contains(&("refs/heads/main".to_owned(), local.tip.clone())));
    }
    let listed = began.elapsed();
    println!(
        "{count} repositories by a snapshot of at least {trimmed} of {records} records: \
         ready after {ready:?}, all listed after {listed:?}"
    );
    let is_measured = count >= MEASURED_REPOSITORIES;
    ensure!(
        !is_measured || listed < Duration::from_secs(60),
        "ready after {ready:?}, listed after {listed:?}"
    );
    cluster.stop_and_compare().await
}
