use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, Node, until_ok};
use serde_json::{Value, json};

use super::scene::Cluster;

/// Has a node believe that it followed another history of the log, as one that was there before the
/// database was set back did. Returns what it knew.
fn follow_another_history(node: &Node) -> Result<Value> {
    let path = node.data_dir().join("cluster.json");
    let known: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
    let mut other = known.clone();
    let digest = other["digest"].as_str().unwrap_or_default();
    ensure!(digest.len() == 64, "{other}");
    other["digest"] = json!(digest.chars().rev().collect::<String>());
    std::fs::write(&path, serde_json::to_vec(&other)?)?;
    Ok(known)
}

/// A node that has a record which the log does not have refuses to go on, whether the log is as long as
/// what it has or longer, and says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_another_history_refuses() -> Result<()> {
    let mut cluster = Cluster::start(2).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 600).await?;
    cluster.settle().await?;
    ensure!(cluster.nodes[1].stop().await?.success());
    let known = follow_another_history(&cluster.nodes[1])?;
    let is_refused = |node: &Node| node.log().matches("the database was set back").count();
    // As long as the log.
    cluster.nodes[1].spawn()?;
    ensure!(!cluster.nodes[1].wait().await?.success());
    ensure!(
        is_refused(&cluster.nodes[1]) > 0,
        "{}",
        cluster.nodes[1].log()
    );
    // Shorter.
    local.tip = local.tree.commit("log", "more")?;
    let mut relay = cluster.nodes[0].connect().await?;
    relay.publish_ok(&local.state(500)).await?;
    local.push(&cluster.nodes[0]).await?;
    let before = is_refused(&cluster.nodes[1]);
    cluster.nodes[1].spawn()?;
    ensure!(!cluster.nodes[1].wait().await?.success());
    ensure!(
        is_refused(&cluster.nodes[1]) > before,
        "{}",
        cluster.nodes[1].log()
    );
    // With its own history it goes on.
    let path = cluster.nodes[1].data_dir().join("cluster.json");
    std::fs::write(path, serde_json::to_vec(&known)?)?;
    cluster.nodes[1].launch().await?;
    until_ok("the refs are everywhere", async || {
        Ok(cluster.refs_everywhere(&local).await.ok())
    })
    .await?;
    cluster.stop_and_compare().await
}
