//! Packs flow through the server without staying in it.

use std::io::Write as _;

use anyhow::{Result, ensure};
use grip_testkit::{Author, Node, WorkTree};

/// Size of the generated repository; the campaign sets it to 1024.
fn size_mib() -> u64 {
    std::env::var("GRIPFAST_MEMORY_MIB")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(160)
}

const LIMIT: u64 = 100 * 1024 * 1024;

#[tokio::test]
async fn pushing_and_cloning_a_large_repository_takes_constant_memory() -> Result<()> {
    let node = Node::start(env!("CARGO_BIN_EXE_gripfast")).await?;
    let (owner, tree) = (Author::new(), WorkTree::init()?);
    fill(&tree, size_mib())?;
    let tip = tree.tip("HEAD")?;
    let mut relay = node.connect().await?;
    relay
        .publish_ok(&owner.announcement(&node.authority(), "large", vec![]))
        .await?;
    relay
        .publish_ok(&owner.state("large", &[("refs/heads/main", &tip)], None))
        .await?;
    let url = owner.clone_url(&node.authority(), "large");
    let pushed = tree.push(&url, &["main"]).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    let after_push = node.peak_rss_bytes()?;
    let clone = WorkTree::clone(&url, &["--bare"]).await?;
    ensure!(clone.tip("main")? == tip);
    let after_clone = node.peak_rss_bytes()?;
    println!(
        "{} MiB: server peak RSS {} MiB after the push, {} MiB after the clone",
        size_mib(),
        after_push >> 20,
        after_clone >> 20
    );
    ensure!(after_clone <= LIMIT, "peak RSS {after_clone} bytes");
    Ok(())
}

/// Commits data that does not compress, in files of 4 MiB.
fn fill(tree: &WorkTree, size_mib: u64) -> Result<()> {
    tree.git(["config", "core.compression", "0"])?;
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for n in 0..size_mib.div_ceil(4) {
        let mut file = std::fs::File::create(tree.path().join(format!("blob-{n:04}")))?;
        let mut block = Vec::with_capacity(4 << 20);
        while block.len() < 4 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend(state.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    tree.git(["add", "-A"])?;
    tree.git(["commit", "-q", "-m", "much data"])?;
    Ok(())
}
