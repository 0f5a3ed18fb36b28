//! Moving in from another server: its directories are taken over as they are.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, WorkTree, git};

use crate::BINARY;

#[tokio::test]
async fn a_directory_of_another_server_is_served_after_its_events_arrive() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    let local = LocalProject::new("moved")?;
    let old = local.directory(&node);
    std::fs::create_dir_all(&old)?;
    let init = ["init", "-q", "--bare", "-b", "main"];
    git::run(&old, init).await?.text()?;
    let path = old.to_str().context("UTF-8")?;
    let tree = &local.tree;
    tree.push_ok(path, &["main", "main:refs/tags/v1"]).await?;
    node.launch().await?;
    let mut relay = node.connect().await?;
    relay.publish_ok(&local.announcement(&[&node], &[])).await?;
    let tip = &local.tip;
    let state = local
        .project
        .state(&[("refs/heads/main", tip), ("refs/tags/v1", tip)]);
    let answer = relay.publish_ok(&state).await?;
    ensure!(answer.is_served(), "the data is here already: {answer:?}");
    let clone = WorkTree::clone(&local.url(&node), &[]).await?;
    ensure!(clone.tip("HEAD")? == *tip && clone.tip("v1")? == *tip);
    git::run(&old, ["fsck", "--full"]).await?.text()?;
    Ok(())
}
