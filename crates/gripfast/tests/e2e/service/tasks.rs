//! The inventory of tasks, and the metrics that tell of the service.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, git};

use crate::BINARY;

#[tokio::test]
async fn every_task_has_an_owner_and_a_place_in_the_inventory() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let local = LocalProject::new("x")?;
    local.publish(&node, 0).await?;
    git::ls_remote(&local.url(&node)).await?;
    // Its connection is one of the tasks.
    let _relay = node.connect().await?;
    let tasks = node.json("/api/v1/tasks").await?;
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
    let lines = [
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
    ];
    node.get("/metrics").await?.must_be(200, &lines);
    Ok(())
}
