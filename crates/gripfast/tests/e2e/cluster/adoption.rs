use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, Node, WorkTree, git, http::must_contain, until_true};
use nostr::prelude::Event;
use serde_json::json;

use super::scene::{Cluster, missing_packs};
use crate::{BINARY, EVERY_LINE};

/// What a node shows: refs of a project, ids of all events.
async fn shown(
    node: &Node,
    local: &LocalProject,
) -> Result<(Vec<(String, String)>, BTreeSet<String>)> {
    let refs = git::ls_remote(&local.url(node)).await?;
    let events = node.connect().await?.query(&[json!({})]).await?;
    let ids = events.iter().map(|event| event.id.to_hex()).collect();
    Ok((refs, ids))
}

/// Runs a command of the operator where nothing runs; says whether it succeeded, and what it said.
async fn run(node: &Node, action: &str, fault: Option<&str>) -> Result<(bool, String)> {
    let mut command = node.command_in_its_place(&["cluster", action]);
    if let Some(fault) = fault {
        command.env("GRIPFAST_FAULT", fault);
    }
    let output = command.output().await?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((output.status.success(), said))
}

/// A node with all that a node may have: branches, pull requests, a tip ahead of its event, an archived
/// repository, and a state that waits for its data, which is returned.
async fn fill(node: &Node, local: &mut LocalProject) -> Result<Event> {
    local.publish(node, 600).await?;
    let url = local.url(node);
    let contributor = Author::new();
    let mut relay = node.connect().await?;
    for (number, is_published) in [(1, true), (2, false)] {
        let tip = local.tree.commit("feature", &number.to_string())?;
        let pr = contributor.pull_request(&local.owner, &local.identifier, &tip, &url);
        let name = format!("HEAD:refs/nostr/{}", pr.id.to_hex());
        local.tree.push_ok(&url, &[&name]).await?;
        if is_published {
            ensure!(relay.publish_ok(&pr).await?.is_served());
        }
    }
    local
        .tree
        .git(["reset", "-q", "--hard", local.tip.as_str()])?;
    let gone = LocalProject::new("gone")?;
    gone.publish(node, 600).await?;
    let deletion = gone.owner.delete_address(30617, &gone.identifier);
    relay.publish_ok(&deletion).await?;
    local.tip = local.tree.commit("log", "to come")?;
    let waiting = local.state(300);
    let answer = relay.publish(&waiting).await?;
    ensure!(answer.is_held(), "{answer:?}");
    Ok(waiting)
}

/// A node that served alone becomes the first member of a cluster with all that it has, also if that was
/// cut short, and one of its members a node that serves alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_alone_becomes_a_cluster_and_a_member_a_node_alone() -> Result<()> {
    let mut single = Node::start(BINARY).await?;
    let mut local = LocalProject::new("naïve name")?;
    let waiting = fill(&single, &mut local).await?;
    let before = shown(&single, &local).await?;
    let keys = ["admin.token", "relay.key"];
    let key = |node: &Node, file: &str| std::fs::read_to_string(node.data_dir().join(file));
    ensure!(single.stop().await?.success());

    let mut cluster = Cluster::start(0).await?;
    let node = cluster.take_in(single)?;
    for fault in ["cluster.adopt_stored", "cluster.adopt_begun"] {
        let (is_done, said) = run(node, "adopt", Some(fault)).await?;
        ensure!(!is_done, "{fault} was not reached: {said}");
    }
    let (is_done, said) = run(node, "adopt", Some(EVERY_LINE)).await?;
    ensure!(is_done && said.contains("first member"), "{said}");
    must_contain(&said, &["\nrows: ", "\npacks and events: ", ", 0s left\n"]);
    let (is_done, said) = run(node, "adopt", None).await?;
    ensure!(
        !is_done && said.contains("member of the cluster already"),
        "{said}"
    );
    node.launch().await?;
    cluster.join().await?;
    for node in &cluster.nodes {
        ensure!(shown(node, &local).await? == before);
        for file in keys {
            ensure!(key(node, file)? == key(&cluster.nodes[0], file)?, "{file}");
        }
    }
    // What waited goes on waiting, and is served once its data is here.
    let mut relay = cluster.nodes[1].connect().await?;
    ensure!(!relay.serves(&waiting.id).await?);
    local
        .tree
        .push_ok(&local.url(&cluster.nodes[1]), &["+main"])
        .await?;
    ensure!(relay.serves(&waiting.id).await?);
    cluster.refs_everywhere(&local).await?;
    let clone = WorkTree::clone(&local.url(&cluster.nodes[1]), &[]).await?;
    ensure!(clone.tip("HEAD")? == local.tip);
    let before = shown(&cluster.nodes[0], &local).await?;
    let (is_done, said) = run(&cluster.nodes[0], "leave", None).await?;
    ensure!(
        !is_done && said.contains("in use by another gripfast"),
        "{said}"
    );
    cluster.stop_and_compare().await?;

    let left = cluster.nodes[0].command_in_its_place(&["cluster", "leave", "--json"]);
    let left = { left }.output().await?;
    let said = String::from_utf8_lossy(&left.stderr).into_owned();
    ensure!(left.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&left.stdout)?;
    ensure!(report["node_name"] == "cluster", "{report}");
    let mut alone = cluster.nodes.remove(0);
    alone.remove_env("GRIPFAST_CLUSTER_PACKS");
    alone.set_env("GRIPFAST_NODE_NAME", "cluster");
    alone.launch().await?;
    ensure!(shown(&alone, &local).await? == before);
    let pushed = local.tree.push(&local.url(&alone), &["+main"]).await?;
    ensure!(pushed.ok, "{pushed:?}");
    ensure!(alone.stop().await?.success());
    Ok(())
}

/// What a member has evicted is on its disk again before it is alone, and it says how far that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_leaves_fetches_what_is_not_on_its_disk() -> Result<()> {
    let mut cluster = Cluster::start(0).await?;
    cluster.cache_bytes = Some(1);
    cluster.join().await?;
    let projects = [LocalProject::new("ebb")?, LocalProject::new("flow")?];
    for local in &projects {
        cluster.publish(local, 0, 60).await?;
    }
    let mut node = cluster.nodes.remove(0);
    let root = node.data_dir().join("git");
    until_true("packs are evicted", || missing_packs(&root).len() == 2).await?;
    ensure!(node.stop().await?.success());
    let (is_done, said) = run(&node, "leave", Some(EVERY_LINE)).await?;
    ensure!(is_done, "{said}");
    must_contain(
        &said,
        &["identifiers: 1 of 2, ", "identifiers: 2 of 2, 0s left\n"],
    );
    ensure!(missing_packs(&root).is_empty());
    node.remove_env("GRIPFAST_CLUSTER_PACKS");
    node.set_env("GRIPFAST_NODE_NAME", "cluster");
    node.launch().await?;
    for local in &projects {
        let clone = WorkTree::clone(&local.url(&node), &[]).await?;
        ensure!(clone.tip("HEAD")? == local.tip);
    }
    Ok(())
}

/// A cluster that has something already takes no other node in.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_records_adopts_nothing() -> Result<()> {
    let mut cluster = Cluster::start(1).await?;
    let mut single = Node::start(BINARY).await?;
    LocalProject::new("x")?.publish(&single, 60).await?;
    ensure!(single.stop().await?.success());
    let node = cluster.take_in(single)?;
    let (is_done, said) = run(node, "adopt", None).await?;
    ensure!(!is_done && said.contains("stop its nodes first"), "{said}");
    ensure!(!node.data_dir().join("cluster.json").exists());
    Ok(())
}
