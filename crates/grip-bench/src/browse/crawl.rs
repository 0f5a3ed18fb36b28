//! A crawl of commit pages from a thousand addresses, beside people who push and clone.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use anyhow::{Result, ensure};
use futures_util::future::try_join_all;
use grip_testkit::{LocalProject, WorkTree, http::Connection};
use tokio::time::Instant;

use super::Large;
use crate::report::{Table, percentile};

const ADDRESSES: usize = 1_000;
/// Crawlers at the same time.
const AT_ONCE: usize = 64;
/// Different pages in all.
const PAGES: usize = 20_000;
/// Cycles and clones without a crawl; beside it people go on until it is over.
const DEEDS: usize = 60;

pub(super) async fn measure(large: &Large, table: &mut Table) -> Result<()> {
    let people = People::start(large).await?;
    let mut calm = people.work(|done| done == DEEDS).await?;
    let (asked, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let crawlers = async {
        let answers = try_join_all((0..AT_ONCE).map(|_| crawl(large, &asked))).await;
        is_over.store(true, Relaxed);
        answers
    };
    let work = people.work(|_| is_over.load(Relaxed));
    let (mut hot, answers) = tokio::try_join!(work, crawlers)?;
    let (shown, refused) = answers.iter().fold((0, 0), |sum, (shown, refused)| {
        (sum.0 + shown, sum.1 + refused)
    });
    for (name, calm, hot) in [
        ("push cycle", &mut calm.0, &mut hot.0),
        ("clone", &mut calm.1, &mut hot.1),
    ] {
        let (calm, hot) = (percentile(calm, 0.99), percentile(hot, 0.99));
        table.row(
            &format!("{name} beside a crawl of {shown} pages, {refused} refused: p99"),
            format!("{hot:.0} ms"),
            &format!("without {calm:.0} ms"),
            Some(hot / calm),
            "–",
        );
    }
    Ok(())
}

/// Pages that were shown and refused.
async fn crawl(large: &Large, asked: &AtomicUsize) -> Result<(usize, usize)> {
    let base = large.local.path();
    let base = base.trim_end_matches(".git");
    let (mut shown, mut refused) = (0, 0);
    loop {
        let n = asked.fetch_add(1, Relaxed);
        if n >= PAGES {
            return Ok((shown, refused));
        }
        let from = n % ADDRESSES;
        let address = Ipv4Addr::new(127, 1, (from / 250) as u8, (from % 250 + 1) as u8);
        let oid = &large.commits[n % large.commits.len()];
        let form = if n < large.commits.len() {
            ""
        } else {
            "?view=split"
        };
        let mut connection = Connection::open_from(address, large.node.port()).await?;
        let page = connection
            .get(&format!("{base}/commit/{oid}{form}"))
            .await?;
        match page.status {
            200 => shown += 1,
            429 | 503 | 504 => refused += 1,
            other => anyhow::bail!("a commit page answers {other}"),
        }
    }
}

/// Somebody with a repository of his own on the same node.
struct People<'a> {
    large: &'a Large,
    local: LocalProject,
    /// Commits so far.
    commits: AtomicUsize,
}

impl<'a> People<'a> {
    async fn start(large: &'a Large) -> Result<Self> {
        let local = LocalProject::new("worked-on")?;
        local.publish(&large.node, 3_000).await?;
        Ok(Self {
            large,
            local,
            commits: AtomicUsize::new(0),
        })
    }

    /// Milliseconds of push cycles and of clones, until so many make it over.
    async fn work(&self, is_over: impl Fn(usize) -> bool) -> Result<(Vec<f64>, Vec<f64>)> {
        let (node, url) = (&self.large.node, self.local.url(&self.large.node));
        let mut relay = node.connect().await?;
        let (mut pushes, mut clones) = (Vec::new(), Vec::new());
        while !is_over(pushes.len()) {
            let n = self.commits.fetch_add(1, Relaxed);
            let tip = self.local.tree.commit("file", &n.to_string())?;
            let age = 2_900 - n as u64;
            let state = self
                .local
                .project
                .state_at(&[("refs/heads/main", &tip)], age);
            let began = Instant::now();
            relay.publish_ok(&state).await?;
            self.local.tree.push_ok(&url, &["main"]).await?;
            ensure!(
                relay.serves(&state.id).await?,
                "served when the push returns"
            );
            pushes.push(began.elapsed().as_secs_f64() * 1e3);
            let began = Instant::now();
            WorkTree::clone(&url, &[]).await?;
            clones.push(began.elapsed().as_secs_f64() * 1e3);
        }
        Ok((pushes, clones))
    }
}
