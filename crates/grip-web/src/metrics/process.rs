//! Metrics of tasks, full queues and circuit breakers.

use std::{collections::BTreeMap, fmt};

use grip_resolve::{BreakerState, Resolver};
use prometheus_client::{encoding::DescriptorEncoder, metrics::MetricType};

use super::{
    collected::{Collected, counter, counters, gauges, labelled},
    domains::{NAMED, sort_by_requests},
};
use crate::HostBudget;

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
        let tasks = self.group.root().status().into_iter();
        for task in tasks.chain(self.db.tasks()) {
            let sum = by_kind.entry(task.kind).or_default();
            sum[0] += task.running as u64;
            sum[1] += task.started_total;
            sum[2] += task.aborted_total;
            sum[3] += task.canceled_total;
            sum[4] += task.panicked_total;
        }
        const CANCELED: &str = "Tasks that ended because they were told to stop";
        let column = |n: usize| by_kind.iter().map(move |(kind, sum)| (*kind, sum[n]));
        gauges(out, "tasks_running", "Tasks by kind", "kind", column(0))?;
        for (n, name, help) in [
            (1, "tasks_spawned", "Tasks started"),
            (2, "tasks_aborted", "Tasks aborted"),
            (3, "tasks_canceled", CANCELED),
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
        let full = status.map_or(0, |status| status.counters.queue_full_total);
        let dropped = [
            ("accept", self.limits.closed_unread()),
            ("relay_outbound", lagged),
            ("resolve", full),
            // No queue any more; the series stays for boards that draw it.
            ("resolve_breakers", 0),
        ];
        let help = "What was given up because a queue was full, by queue";
        counters(out, "queue_dropped", help, "queue", dropped)?;
        let help = "Subscribers of live events that did not keep up";
        counter(out, "bus_lagged", help, lagged)
    }
}

/// One series a state for the hosts that were asked most, and one a state for all peers of the
/// network together: those name themselves.
fn encode_breakers(
    mut hosts: Vec<HostBudget>,
    peers: &[BreakerState],
    out: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    sort_by_requests(&mut hosts);
    hosts.truncate(NAMED);
    let named: Vec<_> = hosts.iter().map(|host| host.domain.to_string()).collect();
    let count = |state| peers.iter().filter(|peer| **peer == state).count() as u64;
    let peers = [
        (
            [("target", "dht_peers"), ("state", "shut")],
            count(BreakerState::Open),
        ),
        (
            [("target", "dht_peers"), ("state", "probing")],
            count(BreakerState::HalfOpen),
        ),
    ];
    let hosts = hosts.iter().zip(&named).flat_map(|(host, target)| {
        let states = [
            (BreakerState::Closed, "passing"),
            (BreakerState::Open, "shut"),
            (BreakerState::HalfOpen, "probing"),
        ];
        states.map(|(state, label)| {
            let labels = [("target", target.as_str()), ("state", label)];
            (labels, u64::from(host.breaker == state))
        })
    });
    let help = "What the breaker of a remote host lets through: 1 for the state it is in; for \
                dht_peers, how many are in it";
    let rows = peers.into_iter().chain(hosts);
    labelled(out, MetricType::Gauge, "breaker_state", help, rows)
}
