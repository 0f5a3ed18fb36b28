//! Metrics of tasks, full queues and circuit breakers.

use std::{collections::BTreeMap, fmt};

use grip_resolve::{BreakerState, Resolver};
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::{MetricType, gauge::ConstGauge},
};

use super::{
    collected::{Collected, counter, counters, gauges},
    domains::NAMED,
};
use crate::{Breaker, HostBudget};

impl Collected {
    pub(super) fn encode_process(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_tasks(out)?;
        self.encode_dropped(out)?;
        let status = self.resolver.as_ref().map(Resolver::status);
        let peers = status.map_or_else(Vec::new, |status| status.breakers);
        let peers: Vec<_> = peers.into_iter().map(|(_, state)| state).collect();
        encode_breakers(self.sync.hosts(), &peers, out)
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
        let status = self.resolver.as_ref().map(Resolver::status);
        let busy = status.map_or(0, |status| status.counters.busy_total);
        counters(
            out,
            "queue_dropped",
            "What was given up because a queue was full, by queue",
            "queue",
            [
                ("accept", self.limits.closed_unread()),
                ("relay_outbound", lagged),
                ("resolve", busy),
                // No queue any more; the series stays for boards that draw it.
                ("resolve_breakers", 0),
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

/// One series a state for the hosts that were asked most, and one a state for all peers of the
/// network together: those name themselves.
fn encode_breakers(
    mut hosts: Vec<HostBudget>,
    peers: &[BreakerState],
    out: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    hosts.sort_by(|a, b| {
        let busier = b.requests_total.cmp(&a.requests_total);
        busier.then_with(|| a.domain.cmp(&b.domain))
    });
    let help = "What the breaker of a remote host lets through: 1 for the state it is in; for \
                dht_peers, how many are in it";
    let mut family = out.encode_descriptor("breaker_state", help, None, MetricType::Gauge)?;
    for (state, label) in [
        (BreakerState::Open, "shut"),
        (BreakerState::HalfOpen, "probing"),
    ] {
        let labels = [("target", "dht_peers"), ("state", label)];
        let count = peers.iter().filter(|peer| **peer == state).count();
        ConstGauge::new(count as i64).encode(family.encode_family(&labels)?)?;
    }
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
