//! How the process does as a service: its tasks, what was dropped at a bound, which hosts are shut
//! out.

use std::{collections::BTreeMap, fmt};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::{
    domains::NAMED,
    gathered::{Gathered, counter, counters, gauges},
};
use crate::{Breaker, HostBudget};

impl Gathered {
    pub(super) fn encode_service(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_tasks(out)?;
        self.encode_dropped(out)?;
        encode_breakers(self.sync.hosts(), out)
    }

    fn encode_tasks(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut by_kind = BTreeMap::<_, [u64; 5]>::new();
        for task in self
            .group
            .root()
            .status()
            .into_iter()
            .chain(self.db.tasks())
        {
            let sum = by_kind.entry(task.kind).or_default();
            sum[0] += task.running as u64;
            sum[1] += task.started_total;
            sum[2] += task.aborted_total;
            sum[3] += task.canceled_total;
            sum[4] += task.panicked_total;
        }
        let column = |n: usize| by_kind.iter().map(move |(kind, sum)| (*kind, sum[n]));
        gauges(out, "tasks_running", "Tasks by kind", "kind", column(0))?;
        for (n, name, help) in [
            (1, "tasks_spawned", "Tasks started"),
            (2, "tasks_aborted", "Tasks aborted"),
            (
                3,
                "tasks_canceled",
                "Tasks that ended because they were told to stop",
            ),
            (4, "tasks_panicked", "Tasks that hit a bug"),
        ] {
            counters(out, name, help, "kind", column(n))?;
        }
        Ok(())
    }

    /// A live subscriber that lags is cut and comes again: it never misses events unknowingly.
    fn encode_dropped(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let lagged = self.relay.stats().slow_readers_cut.get();
        counters(
            out,
            "queue_dropped",
            "What was given up because a queue was full, by queue",
            "queue",
            [
                ("accept", self.admission.unread()),
                ("relay_outbound", lagged),
            ],
        )?;
        counter(
            out,
            "bus_lagged",
            "Subscribers of live events that did not keep up",
            lagged,
        )
    }
}

/// One series a state for the hosts that were asked most.
fn encode_breakers(mut hosts: Vec<HostBudget>, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    hosts.sort_by(|a, b| {
        let busier = b.requests_total.cmp(&a.requests_total);
        busier.then_with(|| a.domain.cmp(&b.domain))
    });
    let help = "What the breaker of a remote host lets through: 1 for the state it is in";
    let mut family = out.encode_descriptor("breaker_state", help, None, MetricType::Gauge)?;
    for host in hosts.iter().take(NAMED) {
        let target = host.domain.to_string();
        for (state, label) in [
            (Breaker::Passing, "passing"),
            (Breaker::Shut, "shut"),
            (Breaker::Probing, "probing"),
        ] {
            let labels = [("target", target.as_str()), ("state", label)];
            let is = i64::from(host.breaker == state);
            ConstGauge::new(is).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
