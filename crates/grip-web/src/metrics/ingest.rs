//! Metrics of GitHub events and API budgets.

use std::fmt;

use grip_ingest::{Forecast, Stats, Status};
use grip_queue::WorkerStatus;
use prometheus_client::{encoding::DescriptorEncoder, metrics::MetricType};

use super::collected::{Collected, counters, gauge, gauges, labelled};
use crate::pages::unsigned;

/// Sources, types of events and budgets that have series of their own.
const MOST: usize = 100;

/// The state of ingest at one moment.
#[derive(Clone)]
pub(super) struct IngestSample {
    pub(super) status: Status,
    pub(super) stats: Stats,
}

impl Collected {
    /// A node that watches nothing shows nothing of this.
    pub(super) fn encode_ingest(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(ingest) = self.samples.ingest() else {
            return Ok(());
        };
        encode_work(&ingest.workers(), out)
    }
}

// A table: one metric a line.
#[rustfmt::skip]
impl IngestSample {
    pub(super) fn encode(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.stats;
        let types = stats.by_type.iter().take(MOST);
        let types = types.map(|(kind, count)| (kind.as_str(), unsigned(*count)));
        let lists = self.status.sources.iter().take(MOST).filter(|source| source.is_configured);
        let polled = lists.map(|s| (s.source.as_str(), unsigned(s.polled_at.unwrap_or(0) / 1000)));
        gauge(out, "ingest_gaps_open", "Holes in what was seen of GitHub that nobody has filled", unsigned(stats.open_gaps))?;
        gauge(out, "ingest_rejected", "Events that could not be read and are kept aside", unsigned(stats.rejected))?;
        gauge(out, "ingest_pushes_last_hour", "Pushes that came within the last hour", unsigned(stats.pushes_last_hour))?;
        gauge(out, "ingest_users", "People of GitHub that are known", unsigned(stats.users))?;
        gauge(out, "ingest_repositories", "Repositories of GitHub that are known", unsigned(stats.repositories))?;
        gauge(out, "ingest_last_push_timestamp_seconds", "When the last push came, in unix time; 0 for never", unsigned(stats.last_at.unwrap_or(0) / 1000))?;
        counters(out, "ingest_events", "Events that ever came, by type", "type", types)?;
        gauges(out, "ingest_last_poll_timestamp_seconds", "When a list of events was last read, in unix time; 0 for never", "source", polled)?;
        encode_budgets(&self.status.budgets, out)
    }
}

/// Budgets by the place of their token among those configured; never by the token.
fn encode_budgets(budgets: &[Forecast], out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let shown = budgets.iter().take(MOST).map(|budget| {
        let token = budget.token.map_or("none".to_owned(), |n| n.to_string());
        (token, budget)
    });
    let shown: Vec<_> = shown.collect();
    type Of = fn(&Forecast) -> Option<u64>;
    let mut column = |name, help, of: Of| {
        let rows = shown.iter().filter_map(|(token, budget)| {
            let labels = [("token", token.as_str()), ("resource", &*budget.resource)];
            Some((labels, of(budget)?))
        });
        labelled(out, MetricType::Gauge, name, help, rows)
    };
    column(
        "github_budget_remaining",
        "Calls that are left in the window",
        |b| b.remaining.map(u64::from),
    )?;
    column("github_budget_limit", "Calls that a window has", |b| {
        b.limit.map(u64::from)
    })?;
    let help = "When the window ends, in unix time";
    column("github_budget_reset_timestamp_seconds", help, |b| {
        b.reset_at.map(|at| unsigned(at / 1000))
    })
}

/// What became of polls, pushes and of who was asked for, by kind.
fn encode_work(workers: &[WorkerStatus], out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Work on events and on the people and repositories behind them, by how it ended";
    let rows = workers.iter().flat_map(|worker| {
        let outcomes = [
            ("done", worker.done_total),
            ("postponed", worker.postponed_total),
            ("failed", worker.failed_total),
            ("discarded", worker.died_total),
            ("lost", worker.lost_total),
            ("panicked", worker.panicked_total),
        ];
        let kind = worker.kind.as_str();
        outcomes.map(|(outcome, count)| ([("kind", kind), ("outcome", outcome)], count))
    });
    labelled(out, MetricType::Counter, "ingest_work", help, rows)
}
