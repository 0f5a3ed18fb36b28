//! Incremental backups at size: `cargo xtask campaign backup` makes them of 10 GB.

use std::{fs, path::Path, time::Instant};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, WorkTree, git};
use serde_json::Value;
use tempfile::TempDir;

use super::{events, push_until};
use crate::BINARY;

const REPOSITORIES: u64 = 8;
/// What may be read and stored beside the pushed data: jobs, the log of orders and pages of the event
/// store change with everything.
const BESIDE_BYTES: u64 = 8 << 20;

/// The data that is backed up first.
fn data_mib() -> u64 {
    let set = std::env::var("GRIPFAST_BACKUP_MIB").ok();
    set.map_or(24, |text| text.parse().expect("a number"))
}

/// What one backup cost.
struct Cost {
    /// The size of all that is in the backup.
    all: u64,
    read: u64,
    /// By how much the directory of backups has grown.
    written: u64,
}

async fn back_up(node: &Node, place: &Path, name: &str) -> Result<Cost> {
    let (before, began) = (size(place)?, Instant::now());
    let directory = place.to_str().context("a path of text")?;
    let said = node.run(&["backup", directory, "--json"]).await?;
    let took = began.elapsed();
    let made: Value = serde_json::from_str(&said)?;
    let number = |key: &str| made["made"][key].as_u64().context("a number");
    let (all, read, new) = (
        number("bytes")?,
        number("read_bytes")?,
        number("new_bytes")?,
    );
    let written = size(place)? - before;
    println!("{name}: {all} bytes, {read} read, {new} new, {written} written, {took:.1?}");
    ensure!(
        written >= new,
        "what is new is there: {new} of {written} bytes"
    );
    Ok(Cost { all, read, written })
}

/// The bytes of all files below a directory; of one that does not exist, none.
fn size(directory: &Path) -> Result<u64> {
    if !directory.exists() {
        return Ok(0);
    }
    let mut sum = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        sum += if kind.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(sum)
}

/// Brings 1 MiB of new data to a repository.
async fn push_a_little(node: &Node, project: &LocalProject) -> Result<()> {
    fs::remove_file(project.tree.path().join("noise-00000"))?;
    let tip = project.tree.commit_noise_of(REPOSITORIES, 1, 1)?;
    let state = project.project.state_at(&[("refs/heads/main", &tip)], 0);
    node.connect().await?.publish_ok(&state).await?;
    project.push(node).await
}

/// However much is there, a backup after a push of 1 MiB reads and stores little more than that, while
/// pushes go on; and everything comes back elsewhere.
#[tokio::test]
async fn a_backup_after_a_small_push_reads_and_stores_what_is_new() -> Result<()> {
    let (node, backups) = (Node::start(BINARY).await?, TempDir::new()?);
    let place = backups.path().join("of-node");
    let each_mib = data_mib().div_ceil(REPOSITORIES);
    let mut urls = Vec::new();
    let mut last = None;
    for n in 0..REPOSITORIES {
        let tree = WorkTree::init()?;
        tree.commit_noise_of(n, each_mib, 1)?;
        let project = LocalProject::with_tree(&format!("large-{n}"), tree)?;
        project.publish(&node, 100).await?;
        urls.push(project.project.path());
        // The tree of the one before goes: there is not room for all of them twice.
        last = Some(project);
    }
    let project = last.context("there is one")?;
    let busy = LocalProject::new("busy")?;
    busy.publish(&node, 100).await?;
    urls.push(busy.project.path());

    let first = back_up(&node, &place, "first").await?;
    let packs = (each_mib * REPOSITORIES) << 20;
    ensure!(
        first.all > packs && first.written > packs,
        "{packs} bytes of packs are in it"
    );

    push_a_little(&node, &project).await?;
    let stop = backups.path().join("stop");
    let backing_up = async {
        let cost = back_up(&node, &place, "after a push of 1 MiB, under load").await;
        fs::write(&stop, "")?;
        cost
    };
    let pushing = push_until(&node, &busy, &stop, || Ok(()));
    let (second, pushed) = tokio::join!(backing_up, pushing);
    let (second, pushed) = (second?, pushed?);
    println!("pushes meanwhile: {pushed}");
    ensure!(second.all > first.all, "{} {}", second.all, first.all);
    let little = 1 << 20..(1 << 20) + BESIDE_BYTES;
    for bytes in [second.read, second.written] {
        ensure!(little.contains(&bytes), "{bytes}");
    }

    // At rest, so that what comes back can be compared to the last ref and event.
    let third = back_up(&node, &place, "after the load").await?;
    for bytes in [third.read, third.written] {
        ensure!(bytes < BESIDE_BYTES, "{bytes}");
    }
    let refs = all_refs(&node, &urls).await?;
    let served = events(&node).await?;
    // The node goes before its copy comes: 10 GB would else be there three times.
    drop((node, project));
    let mut other = Node::prepare(BINARY, &[])?;
    let began = Instant::now();
    let directory = place.to_str().context("a path of text")?;
    other.run(&["restore", directory, "--full"]).await?;
    println!("restored, every object read: {:.1?}", began.elapsed());
    other.launch().await?;
    ensure!(all_refs(&other, &urls).await? == refs);
    ensure!(events(&other).await? == served);
    Ok(())
}

/// The refs of each repository, by its path.
async fn all_refs(node: &Node, paths: &[String]) -> Result<Vec<Vec<(String, String)>>> {
    let mut all = Vec::new();
    for path in paths {
        let url = format!("{}{path}", node.http_url());
        all.push(git::branches_and_tags(&url).await?);
    }
    ensure!(all.iter().all(|refs| !refs.is_empty()), "{all:?}");
    Ok(all)
}
