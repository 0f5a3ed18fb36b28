//! What others count, read when a scraper asks.

use std::{fmt, sync::Arc};

use grip_tasks::TaskGroup;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use tokio::time::Instant;

use crate::admission::{Admission, Class};

/// Where the numbers come from.
pub(crate) struct Gathered {
    pub(crate) admission: Arc<Admission>,
    pub(crate) group: TaskGroup,
    pub(crate) started: Instant,
}

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gathered").finish_non_exhaustive()
    }
}

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut encoder;
        let uptime = self.started.elapsed().as_secs();
        gauge(
            out,
            "ngit_uptime_seconds",
            "Seconds since the start",
            uptime,
        )?;
        gauge(
            out,
            "connections_open",
            "Open connections of any kind",
            self.admission.connections() as u64,
        )?;
        self.encode_slots(out)?;
        self.encode_tasks(out)
    }
}

impl Gathered {
    fn encode_slots(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let slots = Class::ALL.map(|c| (c.label(), self.admission.under_way(c) as u64));
        gauges(
            out,
            "requests_in_flight",
            "Requests under way by the pool they count in",
            "route",
            slots,
        )
    }

    fn encode_tasks(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut by_kind = std::collections::BTreeMap::<_, [u64; 4]>::new();
        for task in self.group.status() {
            let sum = by_kind.entry(task.kind).or_default();
            sum[0] += task.running as u64;
            sum[1] += task.started_total;
            sum[2] += task.aborted_total;
            sum[3] += task.panicked_total;
        }
        let column = |n: usize| by_kind.iter().map(move |(kind, sum)| (*kind, sum[n]));
        gauges(out, "tasks_running", "Tasks by kind", "kind", column(0))?;
        counters(out, "tasks_spawned", "Tasks started", "kind", column(1))?;
        counters(out, "tasks_aborted", "Tasks aborted", "kind", column(2))?;
        counters(
            out,
            "tasks_panicked",
            "Tasks that hit a bug",
            "kind",
            column(3),
        )
    }
}

pub(super) fn gauge(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    ConstGauge::new(value).encode(out.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

pub(super) fn gauges<'a>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (value, count) in values {
        ConstGauge::new(count).encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}

pub(super) fn counters<'a>(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    values: impl IntoIterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (value, count) in values {
        ConstCounter::new(count).encode(family.encode_family(&[(label, value)])?)?;
    }
    Ok(())
}
