//! Orders of the operator against the running node: lists, removals and blocks.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, git};
use serde_json::Value;

use crate::BINARY;

fn parse(text: &str) -> Result<Value> {
    serde_json::from_str(text).with_context(|| format!("no JSON: {text}"))
}

async fn with_project() -> Result<(Node, LocalProject, String)> {
    let node = Node::start_with(BINARY, &[]).await?;
    let project = LocalProject::new("tides")?;
    project.publish(&node, 1_000).await?;
    let path = project.path();
    let name = path.trim_start_matches('/').trim_end_matches(".git");
    let name = name.to_owned();
    Ok((node, project, name))
}

async fn can_clone(node: &Node, project: &LocalProject) -> bool {
    git::ls_remote(&project.url(node)).await.is_ok()
}

#[tokio::test]
async fn repositories_are_listed_measured_and_removed_and_only_with_execute() -> Result<()> {
    let (node, project, name) = with_project().await?;
    let table = node.run(&["repos", "ls"]).await?;
    // Whole, because it is no terminal that reads it.
    ensure!(table.contains(&name) && table.contains("served"), "{table}");
    let list = parse(&node.run(&["repos", "ls", "--json", "--limit", "1"]).await?)?;
    ensure!(
        list["total"] == 1 && list["repositories"][0]["identifier"] == "tides",
        "{list}"
    );
    let sizes = parse(&node.run(&["repos", "size", "--json"]).await?)?;
    ensure!(
        sizes["repositories"][0]["object_bytes"].as_u64() > Some(0),
        "{sizes}"
    );
    let shown = node.run(&["repos", "show", &name]).await?;
    ensure!(shown.contains("shared by 1 owner"), "{shown}");

    let plan = node.run(&["repos", "rm", &name]).await?;
    ensure!(
        plan.contains("would remove") && plan.contains("--execute"),
        "{plan}"
    );
    ensure!(
        can_clone(&node, &project).await,
        "a dry run removes nothing"
    );
    let done = node.run(&["repos", "rm", &name, "--execute"]).await?;
    ensure!(
        done.contains("removed 1 served event, 1 repository"),
        "{done}"
    );
    ensure!(!can_clone(&node, &project).await);
    ensure!(node.log().contains("repos rm"), "no audit record");
    let again = node.run(&["repos", "rm", &name, "--execute"]).await;
    ensure!(again.is_err(), "{again:?}");
    node.run(&["check"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_block_holds_over_a_restart_in_relay_and_git_until_it_is_lifted() -> Result<()> {
    let (mut node, project, name) = with_project().await?;
    node.run(&["repos", "block", &name]).await?;
    ensure!(can_clone(&node, &project).await, "a dry run blocks nothing");
    let block = ["repos", "block", &name, "--reason", "spam", "--execute"];
    node.run(&block).await?;
    ensure!(!can_clone(&node, &project).await);
    node.crash_and_restart().await?;
    let listed = node.run(&["repos", "blocks"]).await?;
    ensure!(
        listed.contains("/tides") && listed.contains("spam"),
        "{listed}"
    );
    ensure!(!can_clone(&node, &project).await);
    let announcement = project
        .owner
        .announcement(&node.authority(), "tides", vec![]);
    let answer = node.connect().await?.publish(&announcement).await?;
    ensure!(
        !answer.accepted && answer.message.starts_with("blocked: "),
        "{answer:?}"
    );

    node.run(&["repos", "unblock", &name, "--execute"]).await?;
    ensure!(can_clone(&node, &project).await, "what it had comes back");
    for record in ["repos block", "repos unblock"] {
        ensure!(node.log().contains(record), "no audit record of {record}");
    }
    node.run(&["check"]).await?;
    Ok(())
}

#[tokio::test]
async fn events_are_removed_one_by_one_and_by_author() -> Result<()> {
    let (node, project, _) = with_project().await?;
    let mut relay = node.connect().await?;
    let stranger = grip_testkit::Author::new();
    let mut issues = Vec::new();
    for n in 0..3 {
        let issue = stranger.issue(&project.owner, "tides", &n.to_string());
        relay.publish_ok(&issue).await?;
        issues.push(issue);
    }
    let id = issues[0].id.to_hex();
    node.run(&["events", "rm", &id]).await?;
    ensure!(
        relay.serves(&issues[0].id).await?,
        "a dry run removes nothing"
    );
    node.run(&["events", "rm", &id, "--execute"]).await?;
    ensure!(!relay.serves(&issues[0].id).await?);
    let npub = stranger.npub();
    let plan = parse(
        &node
            .run(&["events", "rm", "--author", &npub, "--json"])
            .await?,
    )?;
    ensure!(plan["dry_run"] == true && plan["served"] == 2, "{plan}");
    node.run(&["events", "rm", "--author", &npub, "--execute"])
        .await?;
    for issue in &issues {
        ensure!(!relay.serves(&issue.id).await?);
    }
    ensure!(can_clone(&node, &project).await);
    Ok(())
}
