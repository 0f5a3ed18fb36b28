//! Three nodes behind a balancer that knows nothing of them, each connection at another one: to clients they
//! are one server.

use std::{pin::Pin, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use futures_util::{StreamExt as _, stream};
use grip_conformance::{Case, Control, Needs, Outcome, Target};
use grip_testkit::{Node, until_ok};
use tokio::{runtime::Handle, sync::Mutex, task::block_in_place};

use super::scene::Cluster;
use crate::{
    audit,
    crash::workload::Random,
    ngit::{self, client::Line, story::Story},
};

const NODES: usize = 3;

/// Cases that run beside each other.
const AT_ONCE: usize = 4;
/// A short one: all nodes are killed at once, and it has to end before one leads again.
const LEASE: (&str, &str) = ("GRIPFAST_CLUSTER_LEASE", "2s");

fn client() -> Result<reqwest::Client> {
    // Who has chosen one keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder();
    // Each request goes to another node.
    Ok(builder.pool_max_idle_per_host(0).build()?)
}

fn cases_that_need(needs: Needs) -> Vec<Case> {
    let all = grip_conformance::all().into_iter();
    all.filter(|case| case.needs == needs).collect()
}

/// Fails with every case that did not pass.
fn all_passed(ended: &[(String, Outcome)]) -> Result<()> {
    let failed = ended.iter().filter_map(|(name, outcome)| match outcome {
        Outcome::Passed => None,
        Outcome::LeftOut => Some(format!("{name} was left out")),
        Outcome::Failed(error) => Some(format!("{name}: {error:?}")),
    });
    let failed: Vec<String> = failed.collect();
    let (count, all) = (failed.len(), ended.len());
    ensure!(
        failed.is_empty(),
        "{count} of {all}:\n{}",
        failed.join("\n")
    );
    println!("{all} cases passed");
    Ok(())
}

/// Every case of the conformance suite that needs no more than a URL.
#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_behind_a_balancer_conform_as_one() -> Result<()> {
    let mut balanced = Cluster::start_balanced(NODES, &[]).await?;
    let target = Target::new(&balanced.front.http_url(), client()?)?;
    let cases = cases_that_need(Needs::Url);
    ensure!(cases.len() > 50, "{} cases", cases.len());
    let running = stream::iter(cases).map(|case| {
        let target = target.clone();
        async move { (case.name(), case.run(&target).await) }
    });
    let ended: Vec<(String, Outcome)> = running.buffer_unordered(AT_ONCE).collect().await;
    all_passed(&ended)?;
    balanced.cluster.stop_and_compare().await
}

/// The nodes behind the URL, which a case may kill and start with other settings.
struct Owned(Mutex<Cluster>);

impl Control for Owned {
    fn crash_and_restart<'a>(
        &'a self,
        env: &'a [(&'a str, &'a str)],
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let mut cluster = self.0.lock().await;
            // What waits for nodes stays on one thread.
            let restarting = cluster.crash_and_restart(env);
            block_in_place(|| Handle::current().block_on(restarting))
        })
    }
}

/// Cases that restart nodes: a few of them, or as many as `cargo xtask campaign cluster` says.
fn restarting_cases() -> Vec<Case> {
    let mut left = cases_that_need(Needs::Control);
    // It switches GRASP-06 on, which a cluster refuses.
    left.retain(|case| case.id != "G06-4");
    let chosen = |name: &str| std::env::var(name).ok()?.parse().ok();
    let count = chosen("GRIPFAST_CLUSTER_CASES").unwrap_or(3);
    let mut random = Random::new(chosen("GRIPFAST_CLUSTER_SEED").unwrap_or(11));
    let mut cases = Vec::new();
    while !left.is_empty() && (cases.len() as u64) < count {
        cases.push(left.swap_remove(random.below(left.len() as u64) as usize));
    }
    cases
}

/// Cases that restart the server or change its settings, each with a cluster of its own: all nodes are killed
/// and started with them.
#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_behind_a_balancer_conform_over_restarts() -> Result<()> {
    let client = client()?;
    let mut ended = Vec::new();
    for case in restarting_cases() {
        ended.push((case.name(), restarted(case, client.clone()).await));
    }
    all_passed(&ended)
}

async fn restarted(case: Case, client: reqwest::Client) -> Outcome {
    let started = Cluster::start_balanced(NODES, &[LEASE]).await;
    let balanced = match started {
        Ok(balanced) => balanced,
        Err(error) => return Outcome::Failed(error),
    };
    let target = match Target::new(&balanced.front.http_url(), client) {
        Ok(target) => target,
        Err(error) => return Outcome::Failed(error),
    };
    let owned = Arc::new(Owned(Mutex::new(balanced.cluster)));
    match case.run(&target.with_control(owned.clone())).await {
        Outcome::Failed(error) => {
            let logs = logs(&*owned.0.lock().await);
            Outcome::Failed(error.context(logs))
        }
        ended => ended,
    }
}

fn logs(cluster: &Cluster) -> String {
    let logs: Vec<String> = cluster.nodes.iter().map(Node::log).collect();
    format!("--- nodes\n{}", logs.join("\n"))
}

/// The field's own suite, under the rule that it was written for.
#[tokio::test(flavor = "multi_thread")]
async fn grasp_audit_passes_behind_a_balancer() -> Result<()> {
    let env = [audit::LEGACY_RULE];
    let mut balanced = Cluster::start_balanced(NODES, &env).await?;
    let report = audit::report_on(&balanced.front.relay_url()).await?;
    ensure!(report.contains(audit::WHOLE[0]), "{report}");
    balanced.cluster.stop_and_compare().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_with_ngit_3_behind_a_balancer() -> Result<()> {
    a_day(Line::Three, Line::Three).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_with_ngit_2_behind_a_balancer() -> Result<()> {
    a_day(Line::Two, Line::Two).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_an_ngit_3_maintainer_with_an_ngit_2_contributor_behind_a_balancer() -> Result<()>
{
    a_day(Line::Three, Line::Two).await
}

/// A day with the real client, and a power cut of the leader at its end. Contributor repositories (`/prs/`)
/// are not replicated.
async fn a_day(maintainer: Line, contributor: Line) -> Result<()> {
    let mut balanced = Cluster::start_balanced(NODES, &[]).await?;
    let mut story = Story::at(balanced.front, maintainer, contributor).await?;
    let told = async {
        ngit::work_together(&mut story).await?;
        story.survives(the_next_leads(&mut balanced.cluster)).await
    };
    let told = told.await;
    told.with_context(|| logs(&balanced.cluster))?;
    balanced.cluster.stop_and_compare().await
}

/// Kills the leader, and starts it again once another node leads.
async fn the_next_leads(cluster: &mut Cluster) -> Result<()> {
    let before = cluster.leader().await?;
    ngit::nothing_is_held(&cluster.nodes[before]).await?;
    cluster.nodes[before].kill();
    until_ok("another node leads", async || {
        Ok((cluster.leader().await? != before).then_some(()))
    })
    .await?;
    cluster.start_ended().await
}
