use anyhow::{Result, ensure};
use futures_util::future::join_all;
use grip_testkit::{LocalProject, WorkTree, git, within};
use serde_json::json;

use super::scene::{Cluster, Packs};

on_both_stores! {
    a_push_to_one_node_is_served_by_all
    a_tip_pushed_ahead_of_its_event_is_on_every_node
    a_node_with_an_empty_disk_joins
    of_eight_pushes_to_one_branch_one_wins
}

/// Whichever node a client asks, it is one service: a push to one is served by all of them as soon as it is
/// acknowledged, and live subscribers of every node hear of it.
async fn a_push_to_one_node_is_served_by_all(packs: Packs) -> Result<()> {
    let mut cluster = Cluster::start_on(packs, 3).await?;
    let mut subscriber = cluster.nodes[2].connect().await?;
    let subscription = subscriber.subscribe(&[json!({"kinds": [30618]})]).await?;
    ensure!(subscriber.stored(&subscription).await?.is_empty());
    let local = LocalProject::new("x")?;
    let state = cluster.publish(&local, 1, 60).await?;
    // Without waiting: what was acknowledged is there.
    let refs = cluster.refs_everywhere(&local).await?;
    let main = refs.iter().find(|(name, _)| name == "refs/heads/main");
    ensure!(main.is_some_and(|(_, oid)| *oid == local.tip), "{refs:?}");
    let heard = within("the subscriber hears", subscriber.live(&subscription)).await??;
    ensure!(heard.id == state.id);
    for node in &cluster.nodes {
        ensure!(node.connect().await?.serves(&state.id).await?);
        let clone = WorkTree::clone(&local.url(node), &[]).await?;
        ensure!(clone.tip("HEAD")? == local.tip);
        // The copy on its own disk is what it serves.
        let own = git::run(&local.directory(node), ["rev-parse", "refs/heads/main"]).await?;
        ensure!(own.text()?.trim() == local.tip);
    }
    let status = cluster.status().await?;
    ensure!(status["leader"] == "node-0", "{status}");
    ensure!(
        status["nodes"].as_array().map(Vec::len) == Some(3),
        "{status}"
    );
    cluster.stop_and_compare().await
}

/// Usual clients push the tip of a pull request before its event: that too is on every node.
async fn a_tip_pushed_ahead_of_its_event_is_on_every_node(packs: Packs) -> Result<()> {
    let mut cluster = Cluster::start_on(packs, 2).await?;
    let local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 60).await?;
    let contributor = grip_testkit::Author::new();
    local.tree.git(["checkout", "-q", "-B", "feature"])?;
    let tip = local.tree.commit("feature", "1")?;
    let url = local.url(&cluster.nodes[1]);
    let pr = contributor.pull_request(&local.owner, &local.identifier, &tip, &url);
    let name = format!("refs/nostr/{}", pr.id.to_hex());
    local
        .tree
        .push_ok(&url, &[&format!("feature:{name}")])
        .await?;
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&(name.clone(), tip.clone())), "{refs:?}");
    let fetched = WorkTree::init()?;
    fetched.git(["fetch", "-q", &url, &format!("{name}:pr")])?;
    ensure!(fetched.tip("pr")? == tip);
    let mut relay = cluster.nodes[1].connect().await?;
    ensure!(relay.publish_ok(&pr).await?.is_served());
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&(name, tip)), "{refs:?}");
    cluster.stop_and_compare().await
}

/// A node with an empty disk gets everything from the log and the store of packs.
async fn a_node_with_an_empty_disk_joins(packs: Packs) -> Result<()> {
    let mut cluster = Cluster::start_on(packs, 1).await?;
    let mut projects = Vec::new();
    for name in ["a", "b", "naïve name"] {
        let mut local = LocalProject::new(name)?;
        cluster.publish(&local, 0, 60).await?;
        local.tip = local.tree.commit("second", name)?;
        let mut relay = cluster.nodes[0].connect().await?;
        relay.publish_ok(&local.state(30)).await?;
        local.push(&cluster.nodes[0]).await?;
        projects.push(local);
    }
    cluster.join().await?;
    for local in &projects {
        cluster.refs_everywhere(local).await?;
        let clone = WorkTree::clone(&local.url(&cluster.nodes[1]), &[]).await?;
        ensure!(clone.tip("HEAD")? == local.tip);
    }
    cluster.stop_and_compare().await
}

/// Eight people push to one branch through three nodes at once: the one whom the state allows wins, all
/// others are told why.
async fn of_eight_pushes_to_one_branch_one_wins(packs: Packs) -> Result<()> {
    let mut cluster = Cluster::start_on(packs, 3).await?;
    let local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 60).await?;
    let mut clones = Vec::new();
    for number in 0..8 {
        let clone = WorkTree::clone(&local.url(&cluster.nodes[number % 3]), &[]).await?;
        let tip = clone.commit("own", &number.to_string())?;
        clones.push((clone, tip));
    }
    let allowed = clones[5].1.clone();
    let state = local.state_at(&[("refs/heads/main", &allowed)], 30);
    cluster.nodes[1].connect().await?.publish_ok(&state).await?;
    let pushes = clones.iter().enumerate().map(|(number, (clone, tip))| {
        let url = local.url(&cluster.nodes[number % 3]);
        async move {
            let pushed = clone.push(&url, &["HEAD:refs/heads/main"]).await?;
            anyhow::Ok((pushed, tip))
        }
    });
    for pushed in join_all(pushes).await {
        let (pushed, tip) = pushed?;
        if *tip == allowed {
            ensure!(pushed.ok, "{pushed:?}");
        } else {
            ensure!(!pushed.ok, "{tip} was taken: {pushed:?}");
            let told = format!("{pushed:?}");
            // Before the winner's push, or after it.
            let winner = &allowed[..10];
            let not_allowed = format!("has refs/heads/main at {winner}, not {}", &tip[..10]);
            let moved = format!("refs/heads/main is at {winner} by now");
            let is_told_why = told.contains(&not_allowed) || told.contains(&moved);
            ensure!(told.contains("remote rejected") && is_told_why, "{told}");
        }
    }
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&("refs/heads/main".to_owned(), allowed)));
    cluster.stop_and_compare().await
}
