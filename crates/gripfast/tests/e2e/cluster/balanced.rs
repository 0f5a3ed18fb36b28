//! Three nodes behind a balancer that knows nothing of them, each connection at another one: to clients they
//! are one server.

use anyhow::{Result, ensure};
use futures_util::{StreamExt as _, stream};
use grip_conformance::{Case, Needs, Outcome, Target};

use super::scene::Cluster;
use crate::{
    audit,
    ngit::{self, client::Line, story::Story},
};

const NODES: usize = 3;

/// Cases that run beside each other.
const AT_ONCE: usize = 4;

/// Every case of the conformance suite that needs no more than a URL.
#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_behind_a_balancer_conform_as_one() -> Result<()> {
    // Who has chosen one keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (mut cluster, front, _balancer) = Cluster::start_balanced(NODES, &[]).await?;
    let client = reqwest::Client::builder()
        .pool_max_idle_per_host(0)
        .build()?;
    let target = Target::new(&front.http_url(), client)?;
    let of_url = |case: &Case| case.needs == Needs::Url;
    let cases: Vec<Case> = grip_conformance::all().into_iter().filter(of_url).collect();
    let count = cases.len();
    ensure!(count > 50, "{count} cases");
    let running = stream::iter(cases).map(|case| {
        let target = target.clone();
        async move { (case.name(), case.run(&target).await) }
    });
    let ended: Vec<(String, Outcome)> = running.buffer_unordered(AT_ONCE).collect().await;
    let failed = ended.iter().filter_map(|(name, outcome)| match outcome {
        Outcome::Passed => None,
        Outcome::LeftOut => Some(format!("{name} was left out")),
        Outcome::Failed(error) => Some(format!("{name}: {error:?}")),
    });
    let failed: Vec<String> = failed.collect();
    ensure!(
        failed.is_empty(),
        "{} of {count}:\n{}",
        failed.len(),
        failed.join("\n")
    );
    println!("{count} cases passed");
    cluster.stop_and_compare().await
}

/// The field's own suite, under the rule that it was written for.
#[tokio::test(flavor = "multi_thread")]
async fn grasp_audit_passes_behind_a_balancer() -> Result<()> {
    let env = [audit::LEGACY_RULE];
    let (mut cluster, front, _balancer) = Cluster::start_balanced(NODES, &env).await?;
    let report = audit::report_on(&front.relay_url()).await?;
    ensure!(report.contains(audit::WHOLE[0]), "{report}");
    cluster.stop_and_compare().await
}

/// A day with the real client; contributor repositories (`/prs/`) are not replicated.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_with_ngit_behind_a_balancer() -> Result<()> {
    let (mut cluster, front, _balancer) = Cluster::start_balanced(NODES, &[]).await?;
    let mut story = Story::at(front, Line::Three, Line::Three).await?;
    let told = ngit::work_together(&mut story).await;
    told.map_err(|error| {
        let logs: Vec<String> = cluster.nodes.iter().map(grip_testkit::Node::log).collect();
        anyhow::anyhow!("{error:#}\n--- nodes\n{}", logs.join("\n"))
    })?;
    cluster.stop_and_compare().await
}
