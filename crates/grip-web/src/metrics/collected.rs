//! Figures of other parts, read at each scrape.

use std::{fmt, sync::Arc};

use grip_db::Db;
use grip_grasp::Grasp;
use grip_index::Reader;
use grip_relay::Relay;
use grip_resolve::Resolver;
use grip_tasks::TaskGroup;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use tokio::time::Instant;

use super::{DatabaseSamples, Domains};
use crate::{
    Readiness, SyncHandle,
    limits::{Class, Limits},
    probes::Condition,
};

/// Where the numbers come from.
pub(crate) struct Collected {
    pub(crate) limits: Arc<Limits>,
    pub(crate) group: TaskGroup,
    pub(crate) db: Db,
    pub(crate) relay: Relay,
    pub(crate) grasp: Grasp,
    pub(crate) sync: SyncHandle,
    pub(crate) readiness: Readiness,
    pub(crate) resolver: Option<Resolver>,
    pub(crate) samples: Arc<DatabaseSamples>,
    pub(crate) domains: Domains,
    pub(crate) started: Instant,
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected").finish_non_exhaustive()
    }
}

/// The numbers that one reader may see.
#[derive(Debug)]
pub(super) struct ForReader {
    pub(super) collected: Arc<Collected>,
    pub(super) reader: Reader,
}

impl Collector for ForReader {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (all, out) = (&self.collected, &mut encoder);
        all.encode_edge(out)?;
        all.encode_relay(out)?;
        all.encode_queues(self.reader, out)?;
        all.encode_grasp(out)?;
        all.encode_sync(out)?;
        all.encode_ingest(out)?;
        all.encode_resolver(out)?;
        all.encode_process(out)
    }
}

// Tables: one metric a line.
#[rustfmt::skip]
impl Collected {
    fn encode_edge(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let in_flight = |class: &Class| (class.label(), self.limits.in_flight(*class) as u64);
        let condition = Condition::of(&self.readiness, &self.sync, &self.grasp);
        let parts = condition.parts().map(|(part, is_degraded)| (part, u64::from(is_degraded)));
        gauges(out, "degraded", "Parts that are missing or do not work as they were meant to, as /readyz names them; 0 for those that do", "part", parts)?;
        gauge(out, "ngit_uptime_seconds", "Seconds since the start", self.started.elapsed().as_secs())?;
        gauge(out, "connections_open", "Open connections of any kind", self.limits.open_connections() as u64)?;
        gauges(out, "requests_in_flight", "Requests under way by the pool they count in", "route", Class::ALL.iter().map(in_flight))
    }

    fn encode_relay(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.relay.stats();
        let refused = stats.refused().map(|(r, n)| (if r.is_empty() { "none" } else { r }, n));
        gauge(out, "ngit_websocket_connections_active", "Open WebSocket connections", stats.connections.get())?;
        counter(out, "ngit_websocket_connections", "WebSocket connections since the start", stats.connections_total.get())?;
        gauge(out, "ngit_websocket_unique_ips", "Networks of clients with an open connection", self.limits.addresses() as u64)?;
        gauge(out, "ngit_websocket_subscriptions_active", "Open subscriptions", stats.subscriptions.get())?;
        counters(out, "ngit_websocket_messages_received", "Messages of clients", "type", stats.messages())?;
        counter(out, "ngit_events_stored", "Events accepted by the relay", stats.events_accepted.get())?;
        counters(out, "ngit_events_rejected", "Events refused, by the prefix of the answer", "reason", refused)
    }

    fn encode_queues(&self, reader: Reader, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.relay.stats();
        let jobs = self.samples.look().for_reader(reader);
        let resolve = self.resolver.as_ref().map(Resolver::status);
        let resolve = resolve.map_or(0, |status| status.pipeline.queue_depth);
        let here = [
            ("resolve", resolve as u64),
            ("relay_write", stats.write_queue.get()),
            ("relay_read", stats.read_queue.get()),
            ("repository_turns", self.grasp.stats().waiting as u64),
        ];
        gauges(out, "queue_depth", "What could be worked on and is not yet, by queue", "queue", here.into_iter().chain(jobs.due()))?;
        jobs.encode(out)?;
        gauge(out, "relay_lagging_bytes", "Of those, bytes for clients that have been behind for a second or longer", stats.lagging_bytes.get())?;
        gauge(out, "relay_outbound_bytes", "Bytes waiting to be sent to relay clients", stats.outbound_bytes.get())?;
        counter(out, "relay_live_deliveries", "Live events handed to subscribers", stats.deliveries.get())?;
        counter(out, "relay_slow_readers_cut", "Relay connections closed because they did not keep up", stats.slow_readers_cut.get())?;
        counter(out, "relay_commits", "Commits of events", stats.commits.get())?;
        counter(out, "relay_commits_failed", "Commits that failed", stats.commits_failed.get())
    }

    fn encode_grasp(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.grasp.stats();
        let held = stats.purgatory;
        let kinds = [
            ("announcement", held.announcements as u64),
            ("state", held.states as u64),
            ("pull_request", held.prs as u64),
            ("placeholder", held.placeholders as u64),
            ("wanted", held.wanted as u64),
        ];
        let refused = stats.refused.iter().map(|(cause, count)| (*cause, *count));
        let oldest = stats.oldest_wait.unwrap_or_default();
        gauge(out, "contributor_refs", "Tips of pull requests below /prs/, with and without their event", stats.contributed.refs as u64)?;
        gauge(out, "contributor_bytes", "Bytes of packs below /prs/", stats.contributed.bytes)?;
        gauge(out, "ngit_repositories_total", "Repositories hosted, served or held", stats.repositories as u64)?;
        gauges(out, "ngit_purgatory_entries", "What waits for its other half", "kind", kinds)?;
        gauge(out, "ngit_purgatory_oldest_age_seconds", "How long the oldest entry has waited", oldest.as_secs())?;
        gauge(out, "purgatory_announcements", "Announcements held", held.announcements as u64)?;
        gauge(out, "purgatory_announcements_hidden", "Announcements kept unseen after their repository expired", held.hidden_announcements as u64)?;
        gauge(out, "purgatory_states", "States held", held.states as u64)?;
        gauge(out, "purgatory_pull_requests", "Pull requests held", held.prs as u64)?;
        gauge(out, "purgatory_placeholders", "Refs pushed ahead of their pull request", held.placeholders as u64)?;
        gauge(out, "purgatory_bytes", "Bytes of held events", held.bytes as u64)?;
        gauge(out, "purgatory_sync_queue_size", "Identifiers pending sync", held.sync_queue as u64)?;
        gauge(out, "pushes_active", "Pushes under way", stats.pushes as u64)?;
        let git = stats.git_memory;
        gauge(out, "git_processes", "Git processes under way", git.processes as u64)?;
        gauge(out, "git_processes_waiting", "Git processes that wait for memory", git.waiting as u64)?;
        counter(out, "git_processes_refused", "Git processes not started for lack of memory", git.refused)?;
        gauge(out, "git_memory_used_bytes", "Memory that git processes may take at this moment", git.used_bytes)?;
        gauge(out, "git_memory_limit_bytes", "Memory that git processes may take at most", git.limit_bytes)?;
        let requests = [("hit", stats.pack_cache.hits), ("miss", stats.pack_cache.misses)];
        counters(out, "pack_cache_requests", "Clones, fetches, pushes and pages on a node of a cluster, by whether all packs they needed were on its disk", "result", requests)?;
        let collection = stats.collection;
        counter(out, "collection_objects", "Unreachable objects removed from repositories", collection.objects)?;
        counter(out, "collection_bytes", "Bytes that packs became smaller by when unreachable objects were removed", collection.bytes)?;
        counter(out, "collection_failures", "Repositories whose unreachable objects could not be removed", collection.failures)?;
        gauge(out, "collection_last_run_timestamp_seconds", "When unreachable objects were last looked for, in unix time; 0 for never", collection.last_run.unwrap_or(0))?;
        counters(out, "ngit_refusals", "Events and pushes refused, by cause", "cause", refused)
    }
}

type Out<'a, 'b> = &'a mut DescriptorEncoder<'b>;

pub(super) fn gauge(out: Out<'_, '_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstGauge::new(value).encode(out.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

pub(super) fn counter(out: Out<'_, '_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(out.encode_descriptor(name, help, None, MetricType::Counter)?)
}

/// Defines what writes series of one type that differ in one label.
macro_rules! by_label {
    ($name:ident, $kind:ident) => {
        pub(super) fn $name<'a>(
            out: Out<'_, '_>,
            name: &str,
            help: &str,
            label: &'a str,
            values: impl IntoIterator<Item = (&'a str, u64)>,
        ) -> fmt::Result {
            let rows = values.into_iter().map(|(value, n)| ([(label, value)], n));
            labelled(out, MetricType::$kind, name, help, rows)
        }
    };
}

by_label!(gauges, Gauge);
by_label!(counters, Counter);

/// Series of one name, each with its labels.
pub(super) fn labelled<'a, const N: usize>(
    out: Out<'_, '_>,
    kind: MetricType,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = ([(&'a str, &'a str); N], u64)>,
) -> fmt::Result {
    let mut family = out.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in rows {
        let encoder = family.encode_family(&labels)?;
        match kind {
            MetricType::Counter => ConstCounter::new(value).encode(encoder)?,
            _ => ConstGauge::new(value).encode(encoder)?,
        }
    }
    Ok(())
}
