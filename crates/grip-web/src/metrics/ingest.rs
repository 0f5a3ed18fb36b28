//! Metrics of GitHub events and API budgets.

use std::fmt;

use grip_ingest::{Forecast, Stats, Status};
use grip_queue::WorkerStatus;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};

use super::{
    collected::{Collected, counters, gauge, gauges},
    database_samples::unsigned,
};

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
    type Of = fn(&Forecast) -> Option<i64>;
    let columns: [(&str, &str, Of); 3] = [
        (
            "github_budget_remaining",
            "Calls that are left in the window",
            |budget| budget.remaining.map(i64::from),
        ),
        ("github_budget_limit", "Calls that a window has", |budget| {
            budget.limit.map(i64::from)
        }),
        (
            "github_budget_reset_timestamp_seconds",
            "When the window ends, in unix time",
            |budget| budget.reset_at.map(|at| at / 1000),
        ),
    ];
    for (name, help, of) in columns {
        let mut family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for budget in budgets.iter().take(MOST) {
            let Some(value) = of(budget) else {
                continue;
            };
            let token = budget.token.map_or("none".to_owned(), |n| n.to_string());
            let labels = [("token", token.as_str()), ("resource", &*budget.resource)];
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// What became of polls, pushes and of who was asked for, by kind.
fn encode_work(workers: &[WorkerStatus], out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Work on events and on the people and repositories behind them, by how it ended";
    let mut family = out.encode_descriptor("ingest_work", help, None, MetricType::Counter)?;
    for worker in workers {
        for (outcome, count) in [
            ("done", worker.done_total),
            ("postponed", worker.postponed_total),
            ("failed", worker.failed_total),
            ("discarded", worker.died_total),
            ("lost", worker.lost_total),
            ("panicked", worker.panicked_total),
        ] {
            let labels = [("kind", worker.kind.as_str()), ("outcome", outcome)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
