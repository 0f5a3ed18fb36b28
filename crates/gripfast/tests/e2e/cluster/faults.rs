//! Faults of the object store that a cluster keeps packs in.

use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, S3Fault, WorkTree, git, until_ok};

use super::{
    failover::go_on,
    scene::{Cluster, Packs},
};

/// While the object store refuses everything a push is refused with a sentence that says so, fetches go on
/// from the disks, and the same push succeeds later; nothing of it was shown before.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_is_refused_while_the_object_store_is_down_and_taken_later() -> Result<()> {
    let mut cluster = Cluster::start_on(Packs::s3().await?, 2).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 600).await?;
    let before = local.tip.clone();
    // Both have it on their disks.
    for node in &cluster.nodes {
        WorkTree::clone(&local.url(node), &[]).await?;
    }
    cluster.s3().fault(Some(S3Fault::Unavailable));
    local.tip = local.tree.commit("log", "more")?;
    let mut relay = cluster.nodes[1].connect().await?;
    let state = local.state(500);
    relay.publish_ok(&state).await?;
    let url = local.url(&cluster.nodes[1]);
    let pushed = local.tree.push(&url, &["main"]).await?;
    ensure!(!pushed.ok, "{pushed:?}");
    let told = format!("{pushed:?}");
    ensure!(
        told.contains("the object store of the cluster does not take packs"),
        "{told}"
    );
    ensure!(!relay.serves(&state.id).await?, "a claim without its proof");
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&("refs/heads/main".to_owned(), before.clone())));
    let clone = WorkTree::clone(&url, &[]).await?;
    ensure!(clone.tip("HEAD")? == before);
    cluster.s3().fault(None);
    local.tree.push_ok(&url, &["main"]).await?;
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&("refs/heads/main".to_owned(), local.tip.clone())));
    ensure!(relay.serves(&state.id).await?);
    cluster.stop_and_compare().await
}

/// Of an object store that refuses some requests, and says of others that they failed though it made them,
/// clients see nothing: every push is taken, and all nodes end equal.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_fails_now_and_then_costs_nobody_anything() -> Result<()> {
    let mut cluster = Cluster::start_on(Packs::s3().await?, 3).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 2, 900).await?;
    cluster.s3().fault(Some(S3Fault::Flaky { one_in: 4 }));
    for round in 0..6 {
        go_on(&cluster, &mut local, round % 3, 800 - round as u64).await?;
        let refs = cluster.refs_everywhere(&local).await?;
        let main = ("refs/heads/main".to_owned(), local.tip.clone());
        ensure!(refs.contains(&main), "{refs:?}");
        let clone = WorkTree::clone(&local.url(&cluster.nodes[(round + 1) % 3]), &[]).await?;
        ensure!(clone.tip("HEAD")? == local.tip);
    }
    cluster.s3().fault(None);
    cluster.stop_and_compare().await
}

/// The leader dies while its upload of a pack is under way: the push was not acknowledged, nothing of it is
/// shown, and it succeeds at the next leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_while_it_stores_a_pack_has_acknowledged_nothing() -> Result<()> {
    let mut cluster = Cluster::start_on(Packs::s3().await?, 2).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 600).await?;
    let before = local.tip.clone();
    local.tip = local.tree.commit("log", "more")?;
    let mut relay = cluster.nodes[1].connect().await?;
    relay.publish_ok(&local.state(500)).await?;
    let gate = grip_testkit::remote::Gate::default();
    let puts = cluster.s3().requests("PUT").len();
    cluster.s3().fault(Some(S3Fault::Held(gate.clone())));
    let url = local.url(&cluster.nodes[0]);
    let pushing = local.tree.push(&url, &["main"]);
    let killing = async {
        until_ok("the pack is on its way", async || {
            let now = cluster.s3().requests("PUT").len();
            Ok((now > puts).then_some(()))
        })
        .await
    };
    let (pushed, killed) = tokio::join!(
        async { tokio::time::timeout(grip_testkit::DEADLINE, pushing).await },
        async {
            killing.await?;
            // Its clients see the connection end.
            anyhow::Ok(cluster.nodes[0].signal(rustix::process::Signal::KILL)?)
        }
    );
    killed?;
    ensure!(!pushed??.ok, "acknowledged by a dead leader");
    gate.open();
    cluster.s3().fault(None);
    cluster.nodes[0].died().await?;
    let refs = git::ls_remote(&local.url(&cluster.nodes[1])).await?;
    ensure!(refs.contains(&("refs/heads/main".to_owned(), before)));
    let node = &cluster.nodes[1];
    until_ok("the push is taken", async || {
        let pushed = local.tree.push(&local.url(node), &["main"]).await?;
        Ok(pushed.ok.then_some(()))
    })
    .await?;
    cluster.nodes[0].launch().await?;
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&("refs/heads/main".to_owned(), local.tip.clone())));
    cluster.stop_and_compare().await
}
