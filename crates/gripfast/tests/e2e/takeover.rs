//! Moving in from another server: its directories are taken over as they are.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, WorkTree, git};

use crate::BINARY;

#[tokio::test]
async fn a_directory_of_another_server_is_served_after_its_events_arrive() -> Result<()> {
    let mut node = Node::prepare(BINARY, &[])?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let old = node
        .data_dir()
        .join("git")
        .join(owner.npub())
        .join("moved.git");
    std::fs::create_dir_all(&old)?;
    git::run(&old, ["init", "-q", "--bare", "-b", "main"])
        .await?
        .text()?;
    let path = old.to_str().context("UTF-8")?;
    ensure!(tree.push(path, &["main", "main:refs/tags/v1"]).await?.ok);
    node.launch().await?;
    let mut relay = node.connect().await?;
    relay
        .publish_ok(&owner.announcement(&node.authority(), "moved", vec![]))
        .await?;
    let tip = tree.tip("HEAD")?;
    let refs = [
        ("refs/heads/main", tip.as_str()),
        ("refs/tags/v1", tip.as_str()),
    ];
    let state = owner.state("moved", &refs, Some("refs/heads/main"));
    let answer = relay.publish_ok(&state).await?;
    ensure!(answer.is_served(), "the data is here already: {answer:?}");
    let url = owner.clone_url(&node.authority(), "moved");
    let clone = WorkTree::clone(&url, &[]).await?;
    ensure!(clone.tip("HEAD")? == tip && clone.tip("v1")? == tip);
    git::run(&old, ["fsck", "--full"]).await?.text()?;
    Ok(())
}
