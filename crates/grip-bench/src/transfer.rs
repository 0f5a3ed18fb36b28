//! Large clones and pushes: time against git over a path, memory of the server.

use std::{path::Path, time::Instant};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{WorkTree, git};

use crate::{
    fixture::Fixture,
    report::{Table, mib},
};

pub async fn measure(binary: &Path, size_mib: u64, table: &mut Table) -> Result<()> {
    let mut fixture = Fixture::new(binary).await?;
    let tip = fixture.project.tree.commit_noise(size_mib, 1)?;
    let mut relay = fixture.node.connect().await?;
    relay
        .publish_ok(&fixture.state(&[("refs/heads/main", &tip)], 1))
        .await?;
    let began = Instant::now();
    fixture.project.push(&fixture.node).await?;
    let push = began.elapsed().as_secs_f64();
    let floor = path_push(&fixture.project.tree).await?;
    let rss = mib(fixture.node.peak_rss_bytes()?);
    let name = format!("git push over a path {floor:.2} s");
    table.row(
        &format!("push {size_mib} MiB, git client"),
        format!("{push:.2} s, server RSS {rss}"),
        &name,
        Some(push / floor),
        "RSS 438 MB",
    );
    fixture.node.crash_and_restart().await?;
    let repository = fixture.project.directory(&fixture.node);
    let local = format!("file://{}", repository.to_str().context("UTF-8")?);
    let (mut over_path, mut over_http) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        over_path = over_path.min(clone(&local).await?);
        over_http = over_http.min(clone(&fixture.url()).await?);
    }
    let rss = mib(fixture.node.peak_rss_bytes()?);
    let name = format!("git clone over a path {over_path:.2} s");
    let value = format!("{over_http:.2} s, server RSS {rss}");
    table.row(
        &format!("clone {size_mib} MiB, 1 client"),
        value,
        &name,
        Some(over_http / over_path),
        "1.32–1.41×, RSS 444–479 MB",
    );
    let url = fixture.url();
    futures_util::future::try_join_all((0..4).map(|_| clone(&url))).await?;
    let rss = mib(fixture.node.peak_rss_bytes()?);
    table.row(
        &format!("clone {size_mib} MiB, 4 clients"),
        format!("server RSS {rss}"),
        "–",
        None,
        "RSS 1.1 GB",
    );
    Ok(())
}

async fn clone(url: &str) -> Result<f64> {
    let began = Instant::now();
    let tree = WorkTree::clone(url, &["--bare"]).await?;
    let seconds = began.elapsed().as_secs_f64();
    drop(tree);
    Ok(seconds)
}

async fn path_push(tree: &WorkTree) -> Result<f64> {
    let bare = tempfile::tempdir()?;
    git::run(bare.path(), ["init", "-q", "--bare"])
        .await?
        .text()?;
    let url = bare.path().to_str().context("UTF-8")?;
    let began = Instant::now();
    let pushed = tree.push(url, &["main"]).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    Ok(began.elapsed().as_secs_f64())
}
