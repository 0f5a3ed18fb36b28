use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, RelayClient, until_ok, until_true, within};
use rustix::process::Signal;
use serde_json::json;

use super::scene::{Cluster, Packs};

on_both_stores! {
    another_node_leads_when_the_leader_dies
    a_follower_that_died_catches_up
}

/// Commits once more and publishes that at one node, which may have to wait for a leader.
pub(super) async fn go_on(
    cluster: &Cluster,
    local: &mut LocalProject,
    at: usize,
    age: u64,
) -> Result<()> {
    local.tip = local.tree.commit("log", &age.to_string())?;
    let (state, node) = (local.state(age), &cluster.nodes[at]);
    let local = &*local;
    until_ok("the state is taken", async || {
        let mut relay = node.connect().await?;
        let answer = relay.publish(&state).await?;
        Ok(answer.accepted.then_some(()))
    })
    .await?;
    until_ok("the push is taken", async || {
        let pushed = local.tree.push(&local.url(node), &["+main"]).await?;
        Ok(pushed.ok.then_some(()))
    })
    .await
}

/// Waits until a connection to a relay ends, in whichever way.
async fn ended(relay: &mut RelayClient) {
    while let Ok(Some(_)) = relay.next().await {}
}

/// A leader that is cut off from the database stops to serve before another node leads, open connections
/// included; when it reaches the database again it finds out that it is not the leader, and ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_from_the_database_serves_nobody() -> Result<()> {
    let (mut cluster, cables) = Cluster::start_cabled(2).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 600).await?;
    let mut open = cluster.nodes[0].connect().await?;
    ensure!(open.query(&[json!({"kinds": [30617]})]).await?.len() == 1);
    cables[0].block();
    within("the open connection ends", ended(&mut open)).await?;
    ensure!(cluster.nodes[0].get("/").await?.status == 503);
    go_on(&cluster, &mut local, 1, 500).await?;
    ensure!(cluster.leader().await? == 1);
    cables[0].unblock();
    let ended = cluster.nodes[0].wait().await?;
    ensure!(!ended.success(), "{}", cluster.nodes[0].log());
    cluster.nodes[0].launch().await?;
    cluster.refs_everywhere(&local).await?;
    cluster.stop_and_compare().await
}

/// A leader that is told to stop while it starts gives the lead up: nobody waits for the end of its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_stopped_while_it_starts_gives_the_lead_up() -> Result<()> {
    let mut cluster = Cluster::start(0).await?;
    let leader = cluster.prepare()?;
    let released = leader.work_dir().join("never");
    leader.set_env("GRIPFAST_CLUSTER_LEASE", "10m");
    leader.set_env(
        "GRIPFAST_FAULT",
        &format!("leader.opened@{}", released.display()),
    );
    leader.spawn()?;
    ensure!(cluster.leader().await? == 0);
    cluster.join().await?;
    // Before that signal it may not listen to signals as a leader does.
    let node = &mut cluster.nodes[0];
    until_true("it leads", || node.log().contains("this node leads")).await?;
    ensure!(node.stop().await?.success(), "{}", node.log());
    until_ok("the other one leads", async || {
        Ok((cluster.leader().await? == 1).then_some(()))
    })
    .await
}

/// The leader dies as in a power cut: another node goes on, nothing acknowledged is lost, and what comes back
/// follows.
async fn another_node_leads_when_the_leader_dies(packs: Packs) -> Result<()> {
    let mut cluster = Cluster::start_on(packs, 3).await?;
    let mut local = LocalProject::new("x")?;
    let state = cluster.publish(&local, 2, 600).await?;
    cluster.nodes[0].kill();
    go_on(&cluster, &mut local, 1, 500).await?;
    let leader = cluster.leader().await?;
    ensure!(leader != 0, "node-0 is dead");
    cluster.nodes[0].launch().await?;
    let refs = cluster.refs_everywhere(&local).await?;
    ensure!(refs.contains(&("refs/heads/main".to_owned(), local.tip.clone())));
    ensure!(!cluster.nodes[0].connect().await?.serves(&state.id).await?);
    go_on(&cluster, &mut local, 0, 400).await?;
    cluster.refs_everywhere(&local).await?;
    cluster.stop_and_compare().await
}

/// A follower that dies goes on where it was.
async fn a_follower_that_died_catches_up(packs: Packs) -> Result<()> {
    let mut cluster = Cluster::start_on(packs, 2).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 600).await?;
    cluster.nodes[1].kill();
    go_on(&cluster, &mut local, 0, 500).await?;
    cluster.nodes[1].launch().await?;
    cluster.refs_everywhere(&local).await?;
    cluster.stop_and_compare().await
}

/// A leader that was paused has lost its lead when it wakes: it changes nothing, and ends. What it was
/// asked through others ends before, although its machine answers for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_slept_changes_nothing_when_it_wakes() -> Result<()> {
    let mut cluster = Cluster::start(2).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 0, 600).await?;
    let mut forwarded = cluster.nodes[1].connect().await?;
    cluster.nodes[0].signal(Signal::STOP)?;
    let mut asked = cluster.nodes[1].connect().await;
    within("the forwarded connection ends", ended(&mut forwarded)).await?;
    if let Ok(asked) = &mut asked {
        within("a later one ends", ended(asked)).await?;
    }
    go_on(&cluster, &mut local, 1, 500).await?;
    ensure!(cluster.leader().await? == 1);
    cluster.nodes[0].signal(Signal::CONT)?;
    // It is behind, and ends soon: nobody waits for it to catch up.
    cluster.settle().await?;
    let ended = cluster.nodes[0].wait().await?;
    ensure!(!ended.success(), "{}", cluster.nodes[0].log());
    cluster.nodes[0].launch().await?;
    cluster.refs_everywhere(&local).await?;
    go_on(&cluster, &mut local, 0, 400).await?;
    cluster.stop_and_compare().await
}

/// The database is started again under a cluster: what was said stands, and the work goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_started_again_is_used_again() -> Result<()> {
    let mut cluster = Cluster::start(2).await?;
    let mut local = LocalProject::new("x")?;
    cluster.publish(&local, 1, 600).await?;
    cluster.server.restart().await?;
    // A leader whose lease ran out meanwhile ends, as its service manager expects.
    cluster.start_ended().await?;
    go_on(&cluster, &mut local, 1, 500).await?;
    cluster.start_ended().await?;
    cluster.refs_everywhere(&local).await?;
    cluster.stop_and_compare().await
}

/// Steps between the log and the disk of a leader, and the times that each is reached before it dies
/// there; events of its own are logged before it is ready.
const OF_LEADER: [(&str, u32); 7] = [
    ("cluster.change_logged", 1),
    ("cluster.change_logged", 3),
    ("cluster.events_logged", 3),
    ("git.refs.written", 1),
    ("git.promote.half", 2),
    ("release.event_saved", 1),
    ("release.event_saved", 2),
];

/// Killed between the log and its disk, a leader comes back with what the log says.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_killed_at_any_step_loses_nothing() -> Result<()> {
    for (point, hit) in OF_LEADER {
        killed_at(point, hit, 0)
            .await
            .with_context(|| format!("leader at {point}:{hit}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_killed_between_two_records_loses_nothing() -> Result<()> {
    for hit in [4, 5, 7] {
        killed_at("cluster.applied", hit, 1)
            .await
            .with_context(|| format!("follower after record {hit}"))?;
    }
    Ok(())
}

async fn killed_at(point: &str, hit: u32, dying: usize) -> Result<()> {
    let mut cluster = Cluster::start(0).await?;
    for at in 0..2 {
        let node = cluster.prepare()?;
        if at == dying {
            node.set_env("GRIPFAST_FAULT", &format!("{point}:{hit}"));
        }
        node.launch().await?;
    }
    let mut local = LocalProject::new("x")?;
    let other = 1 - dying;
    // Its clients may see the kill: they try again.
    until_ok("it is published", async || {
        Ok(cluster.publish(&local, other, 600).await.ok())
    })
    .await?;
    go_on(&cluster, &mut local, other, 500).await?;
    cluster.nodes[dying].died().await?;
    cluster.nodes[dying].remove_env("GRIPFAST_FAULT");
    cluster.nodes[dying].launch().await?;
    cluster.refs_everywhere(&local).await?;
    go_on(&cluster, &mut local, dying, 400).await?;
    cluster.refs_everywhere(&local).await?;
    cluster.stop_and_compare().await
}
