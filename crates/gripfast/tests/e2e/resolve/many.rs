//! Every repository resolves from every node, and still does when many are gone and others lie.
//!
//! The short form runs with the other tests; `cargo xtask campaign resolve` has 32 nodes and a liar for
//! every lie, and prints its table.

use std::{collections::HashSet, fmt};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use grip_testkit::Node;
use serde_json::Value;

use crate::resolve::{
    liars::{self, Liar},
    net::{self, Served},
};

/// Nodes in the short form.
const NODES: usize = 6;

fn nodes() -> usize {
    let chosen = std::env::var("GRIPFAST_RESOLVE_NODES").ok();
    chosen.and_then(|n| n.parse().ok()).unwrap_or(NODES)
}

/// Liars among so many nodes: a tenth, and in the long form one for every lie at least.
fn liars_among(nodes: usize) -> usize {
    let fewest = if nodes > NODES { liars::LIES } else { 2 };
    nodes.div_ceil(10).max(fewest)
}

/// Resolutions of one phase, by how they ended.
#[derive(Default)]
struct Figures {
    phase: String,
    asked: usize,
    /// Of those that peers answered.
    took_ms: Vec<f64>,
    hops: Vec<u64>,
    /// Well signed and older, or of something else.
    wrong: Vec<String>,
    /// Past the deadline.
    late: Vec<String>,
    failed: Vec<String>,
    /// Values that proved nothing, counted by all nodes since they started.
    lies: u64,
}

impl Figures {
    const HEAD: &'static str = "| network | asked | right | wrong | late | failed | by peers | p50 | p99 | hops, mean and most | lies refused so far |\n|---|---|---|---|---|---|---|---|---|---|---|";

    /// Resolves everything from every node, one after the other, and never from a cache.
    async fn take(phase: String, nodes: &[Node], served: &[Served]) -> Result<Self> {
        let mut figures = Self {
            phase,
            ..Self::default()
        };
        for node in nodes {
            for it in served {
                for key in [&it.repo.key(), &it.id] {
                    figures.add(node, key, &it.id).await?;
                }
            }
        }
        for node in nodes {
            let counters = &node.json("/api/v1/resolve").await?["counters"];
            figures.lies += counters["lies_total"].as_u64().context("no counter")?;
        }
        figures.took_ms.sort_by(f64::total_cmp);
        println!("{figures}");
        Ok(figures)
    }

    async fn add(&mut self, node: &Node, key: &str, id: &str) -> Result<()> {
        self.asked += 1;
        let response = node.get(&format!("/resolve/{key}?fresh=true")).await?;
        let found = response.json()?;
        match response.status {
            200 if found["id"] != id => self.wrong.push(format!("{key}: {found}")),
            200 if found["source"] == "dht" => {
                self.took_ms
                    .push(found["took_ms"].as_f64().context("no time")?);
                self.hops.push(found["hops"].as_u64().context("no hops")?);
            }
            200 => ensure!(found["source"] == "local", "from a cache: {found}"),
            504 => self.late.push(format!("{key}: {found}")),
            _ => self.failed.push(format!("{key}: {found}")),
        }
        Ok(())
    }

    fn percentile(&self, percent: usize) -> f64 {
        let last = self.took_ms.len().saturating_sub(1);
        let took = self.took_ms.get(last * percent / 100);
        took.copied().unwrap_or_default()
    }

    fn right(&self) -> usize {
        self.asked - self.wrong.len() - self.late.len() - self.failed.len()
    }

    /// Fails unless 99 of a hundred ended with the right manifest.
    fn must_be_right(&self) -> Result<()> {
        let Self {
            wrong,
            late,
            failed,
            ..
        } = self;
        ensure!(
            self.right() as f64 >= self.asked as f64 * 0.99,
            "{}: wrong {wrong:#?}, late {late:#?}, failed {failed:#?}",
            self.phase
        );
        Ok(())
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hops: u64 = self.hops.iter().sum();
        write!(
            f,
            "| {} | {} | {:.2} % | {} | {} | {} | {} | {:.1} ms | {:.1} ms | {:.2}, {} | {} |",
            self.phase,
            self.asked,
            self.right() as f64 * 100.0 / self.asked as f64,
            self.wrong.len(),
            self.late.len(),
            self.failed.len(),
            self.took_ms.len(),
            self.percentile(50),
            self.percentile(99),
            hops as f64 / self.hops.len().max(1) as f64,
            self.hops.iter().max().copied().unwrap_or_default(),
            self.lies,
        )
    }
}

#[tokio::test]
async fn every_repository_resolves_from_every_node_with_a_third_gone_and_a_tenth_lying()
-> Result<()> {
    let mut nodes = net::start(nodes()).await?;
    let all = nodes.len();
    // They are there from the beginning: what is published near to them is lost.
    let mut liars = Vec::new();
    for n in 0..liars_among(all) {
        liars.push(Liar::start(n, &nodes).await?);
    }
    let served = net::serve(&nodes).await?;
    println!("{}", Figures::HEAD);
    let phase = format!("{all} nodes and {} liars", liars.len());
    let whole = Figures::take(phase, &nodes, &served).await?;
    whole.must_be_right()?;

    try_join_all(liars.iter().map(|liar| liar.claim(&served))).await?;
    for liar in &liars {
        liar.mislead().await;
    }
    let phase = "the liars provide everything".to_owned();
    let lied_to = Figures::take(phase, &nodes, &served).await?;
    lied_to.must_be_right()?;
    ensure!(lied_to.lies > 0, "no liar was asked");
    no_honest_node_is_left_alone(&nodes).await?;

    // Without a word, and with them what they have: every second from the end, until three tenths are gone.
    let gone = (all * 3).div_ceil(10);
    for n in 0..gone {
        nodes.remove(nodes.len() - 1 - 2 * n).kill();
    }
    let phase = format!("{gone} nodes killed as well");
    let rest = Figures::take(phase, &nodes, &served).await?;
    rest.must_be_right()?;
    no_honest_node_is_left_alone(&nodes).await?;
    no_liar_is_a_provider(&nodes, &served, &liars).await?;
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

/// What the owner named comes first, and no node record of a liar counts: neither one from the future,
/// nor an old one, nor another's.
async fn no_liar_is_a_provider(nodes: &[Node], served: &[Served], liars: &[Liar]) -> Result<()> {
    let liars: HashSet<String> = liars.iter().map(Liar::name).collect();
    for node in nodes {
        for it in served {
            let path = format!("/providers/{}?fresh=true", it.repo.key());
            let ranked = node.json(&path).await?;
            let providers = ranked["providers"].as_array().context("no list")?;
            let first = providers.first().context("no provider")?;
            ensure!(first["named_by"] == "owner", "{ranked}");
            let is_lie = |provider: &&Value| {
                let by = provider["named_by"]["node"].as_str();
                by.is_some_and(|by| liars.contains(by))
            };
            let lie = providers.iter().find(is_lie);
            ensure!(lie.is_none(), "a liar is a provider: {ranked}");
        }
    }
    Ok(())
}
