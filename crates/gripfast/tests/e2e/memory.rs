//! Packs flow through the server without staying in it.

use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, Node, WorkTree};

use crate::BINARY;

/// Size of the generated repository: twice what it may take in memory. The campaign sets it to 1024.
fn size_mib() -> u64 {
    std::env::var("GRIPFAST_MEMORY_MIB")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(96)
}

/// What a pack may take beyond what the node takes by itself; in a debug build the latter is mostly
/// its own code.
const LIMIT: u64 = 48 * 1024 * 1024;

/// Huge pages are two thirds of what an idle node has in memory.
#[tokio::test]
async fn a_node_has_its_memory_in_small_pages() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.id()?))?;
    let is_small = |line: &str| line.split_whitespace().eq(["THP_enabled:", "0"]);
    ensure!(status.lines().any(is_small), "{status}");
    Ok(())
}

#[tokio::test]
async fn pushing_and_cloning_a_large_repository_takes_constant_memory() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let idle = node.peak_rss_bytes()?;
    let tree = WorkTree::init()?;
    tree.commit_noise(size_mib(), 4)?;
    let local = LocalProject::with_tree("large", tree)?;
    local.announce(&node, 0).await?;
    let (pushed, receiving) = node.watching_children(local.push(&node)).await?;
    pushed?;
    let after_push = node.peak_rss_bytes()?;
    let url = local.url(&node);
    let cloning = WorkTree::clone(&url, &["--bare"]);
    let (clone, sending) = node.watching_children(cloning).await?;
    ensure!(clone?.tip("main")? == local.tip);
    let after_clone = node.peak_rss_bytes()?;
    println!(
        "{} MiB: server peak RSS {} MiB idle, {} MiB after the push, {} MiB after the clone; \
         its git processes {} MiB receiving, {} MiB sending",
        size_mib(),
        idle >> 20,
        after_push >> 20,
        after_clone >> 20,
        receiving >> 20,
        sending >> 20
    );
    ensure!(
        after_clone - idle <= LIMIT,
        "peak RSS {after_clone} bytes, idle {idle}"
    );
    Ok(())
}
