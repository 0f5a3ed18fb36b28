use anyhow::{Result, ensure};
use futures_util::{StreamExt as _, stream};
use grip_conformance::{Case, Needs, Outcome, Target};

use super::scene::Cluster;

/// Cases that run beside each other.
const AT_ONCE: usize = 4;

/// Met by the leader alone (G01-34): a follower refuses objects that no ref is at (docs/cluster.md, Limits).
const OF_LEADER: &str = "capabilities are advertised, filters and any oid are served";

/// Three nodes behind a balancer that knows nothing of them, each connection at another one, are one
/// server: every case of the conformance suite that needs no more than a URL, but one.
#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_behind_a_balancer_conform_as_one() -> Result<()> {
    // Who has chosen one keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (mut cluster, balancer) = Cluster::start_balanced(3).await?;
    let client = reqwest::Client::builder()
        .pool_max_idle_per_host(0)
        .build()?;
    let target = Target::new(&format!("http://{}", balancer.address()), client)?;
    let of_url = |case: &Case| case.needs == Needs::Url && case.title != OF_LEADER;
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
