//! The inventory of tasks, and the metrics that tell of the service.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, WorkTree, git};
use serde_json::Value;

use crate::BINARY;

#[tokio::test]
async fn every_task_has_an_owner_and_a_place_in_the_inventory() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let mut relay = node.connect().await?;
    relay
        .publish_ok(&owner.announcement(&node.authority(), "x", vec![]))
        .await?;
    let tip = tree.tip("HEAD")?;
    let state = owner.state("x", &[("refs/heads/main", &tip)], None);
    relay.publish_ok(&state).await?;
    let url = owner.clone_url(&node.authority(), "x");
    let pushed = tree.push(&url, &["main"]).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    git::ls_remote(&url).await?;
    let answer = node.get("/api/v1/tasks").await?;
    let (_, body) = answer.split_once("\r\n\r\n").context("a body")?;
    let tasks: Value = serde_json::from_str(body)?;
    let listed = tasks["tasks"].as_array().context("a list")?;
    for task in listed {
        ensure!(
            task["criticality"].is_string() && task["what"].is_string(),
            "not in tasks.tsv: {task}"
        );
        let group = task["group"].as_str().unwrap_or_default();
        ensure!(
            group.starts_with("gripfast") || group.starts_with("db"),
            "{task}"
        );
        ensure!(task["panicked_total"] == 0, "{task}");
    }
    for (kind, group) in [
        ("http", "gripfast/edge"),
        ("websocket", "gripfast/front"),
        ("grasp.sweep", "gripfast/back"),
        ("writer", "db"),
    ] {
        let found = listed.iter().find(|task| task["kind"] == kind);
        let found = found.with_context(|| format!("{kind} is not listed"))?;
        ensure!(
            found["group"] == group && found["running"].as_u64() >= Some(1),
            "{found}"
        );
    }
    let metrics = node.get("/metrics").await?;
    for name in [
        "tasks_spawned_total{kind=\"http\"} 1",
        "tasks_spawned_total{kind=\"writer\"} 1",
        "tasks_aborted_total{kind=\"http\"} 0",
        "tasks_canceled_total{kind=\"http\"} 0",
        "queue_depth{queue=\"relay_write\"}",
        "queue_dropped_total{queue=\"relay_outbound\"} 0",
        "queue_dropped_total{queue=\"accept\"} 0",
        "busy_rejections_total{route=\"push\"} 0",
        "io_timeouts_total{op=\"slow_head\"} 0",
        "# TYPE breaker_state gauge",
        "bus_lagged_total 0",
    ] {
        ensure!(metrics.contains(name), "{name} is not exported:\n{metrics}");
    }
    Ok(())
}
