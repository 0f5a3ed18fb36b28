//! Every repository resolves from every node, and still does when many are gone.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::Node;

use crate::resolve::{
    liars::Liar,
    net::{self, Repo},
};

/// Nodes in the short form.
const NODES: usize = 6;

fn nodes() -> usize {
    let chosen = std::env::var("GRIPFAST_RESOLVE_NODES").ok();
    chosen.and_then(|n| n.parse().ok()).unwrap_or(NODES)
}

/// How many resolutions ended well, and how.
#[derive(Default)]
struct Figures {
    took_ms: Vec<f64>,
    hops: Vec<u64>,
    failures: Vec<String>,
}

impl Figures {
    /// Resolves everything from every node, one after the other, and never from a cache.
    async fn take(nodes: &[Node], served: &[(Repo, String)]) -> Self {
        let mut figures = Self::default();
        for node in nodes {
            for (repo, id) in served {
                for key in [&repo.key(), id] {
                    if let Err(error) = figures.add(node, key, id).await {
                        figures.failures.push(format!("{key}: {error:#}"));
                    }
                }
            }
        }
        figures
    }

    async fn add(&mut self, node: &Node, key: &str, id: &str) -> Result<()> {
        let found = node.json(&format!("/resolve/{key}?fresh=true")).await?;
        ensure!(found["id"] == id, "another manifest: {found}");
        if found["source"] == "dht" {
            self.took_ms
                .push(found["took_ms"].as_f64().context("no time")?);
            self.hops.push(found["hops"].as_u64().context("no hops")?);
        } else {
            ensure!(found["source"] == "local", "from a cache: {found}");
        }
        Ok(())
    }

    fn show(&mut self, what: &str) {
        self.took_ms.sort_by(f64::total_cmp);
        let of = |percent: usize| self.took_ms[(self.took_ms.len() - 1) * percent / 100];
        let most = self.hops.iter().max().copied().unwrap_or_default();
        let sum: u64 = self.hops.iter().sum();
        println!(
            "{what}: {} resolved over the network, p50 {:.1} ms, p99 {:.1} ms, {:.2} hops (most \
             {most}), {} failed",
            self.took_ms.len(),
            of(50),
            of(99),
            sum as f64 / self.hops.len() as f64,
            self.failures.len(),
        );
    }

    /// Of a hundred, how many ended well.
    fn percent(&self, of: usize) -> f64 {
        (of - self.failures.len()) as f64 * 100.0 / of as f64
    }
}

#[tokio::test]
async fn every_repository_resolves_from_every_node_with_a_third_gone_and_a_tenth_lying()
-> Result<()> {
    let mut nodes = net::start(nodes()).await?;
    let mut served = Vec::new();
    for node in &nodes {
        let repo = Repo::new()?;
        repo.0.publish(node, 10).await?;
        let id = repo.id(node).await?;
        served.push((repo, id));
    }
    for (n, (repo, id)) in served.iter().enumerate() {
        repo.is_found(&nodes[(n + 1) % nodes.len()], id).await?;
    }
    let all = nodes.len() * served.len() * 2;
    let mut whole = Figures::take(&nodes, &served).await;
    whole.show(&format!("{} nodes", nodes.len()));
    ensure!(whole.percent(all) >= 99.0, "{:?}", whole.failures);

    // Without a word, and with them what they have: every second from the end, until three tenths are gone.
    let gone = (nodes.len() * 3).div_ceil(10);
    for n in 0..gone {
        nodes.remove(nodes.len() - 1 - 2 * n).kill();
    }
    let all = nodes.len() * served.len() * 2;
    let mut rest = Figures::take(&nodes, &served).await;
    rest.show(&format!("{gone} of them killed"));
    ensure!(rest.percent(all) >= 99.0, "{:?}", rest.failures);

    let mut liars = Vec::new();
    for n in 0..nodes.len().div_ceil(9) {
        liars.push(Liar::start(n, &nodes[0], &served).await?);
    }
    let mut lied_to = Figures::take(&nodes, &served).await;
    lied_to.show(&format!("{} liars beside them", liars.len()));
    ensure!(lied_to.percent(all) >= 99.0, "{:?}", lied_to.failures);
    no_honest_node_is_left_alone(&nodes).await
}

/// A node that is left alone is a liar, or gone.
async fn no_honest_node_is_left_alone(nodes: &[Node]) -> Result<()> {
    let (mut honest, mut left_alone) = (Vec::new(), Vec::new());
    for node in nodes {
        let status = node.json("/api/v1/resolve").await?;
        let name = status["network"]["peer"].as_str().context("no name")?;
        honest.push(name.to_owned());
        let shut = status["left_alone"].as_array().context("no list")?;
        let names = shut.iter().filter_map(|it| it["peer"].as_str());
        left_alone.extend(names.map(str::to_owned));
    }
    left_alone.retain(|peer| honest.contains(peer));
    ensure!(left_alone.is_empty(), "left alone: {left_alone:?}");
    Ok(())
}
