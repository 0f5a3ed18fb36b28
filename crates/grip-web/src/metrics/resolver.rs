//! Metrics of the resolver and the DHT.

use std::fmt;

use grip_resolve::{Counters, Histogram, STEPS_MS};
use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

use super::collected::{Collected, counter, counters, gauge};

// Tables: one metric a line.
#[rustfmt::skip]
impl Collected {
    /// A node that resolves nothing shows nothing of this.
    pub(super) fn encode_resolver(&self, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(resolver) = &self.resolver else {
            return Ok(());
        };
        let status = resolver.status();
        let (pipeline, publisher) = (&status.pipeline, &status.publisher);
        encode_counters(&status.counters, out)?;
        gauge(out, "resolve_workers_busy", "Resolutions under way", pipeline.workers_busy as u64)?;
        gauge(out, "resolve_cached_bytes", "Memory of answers that are kept", pipeline.cached_bytes)?;
        gauge(out, "resolve_pins", "Manifests that are pinned", pipeline.pins as u64)?;
        gauge(out, "resolve_told", "Repositories that the network was told of", publisher.published as u64)?;
        let Some(network) = &status.network else {
            return Ok(());
        };
        gauge(out, "dht_peers_connected", "Peers with an open connection", network.connected_peers as u64)?;
        gauge(out, "dht_peers_known", "Peers in the routing table", network.known_peers as u64)?;
        counter(out, "dht_inbound_connections", "Connections that other nodes made to this one", network.counters.inbound_total)?;
        gauge(out, "dht_published_keys", "Keys of this node that are provided", network.published_keys as u64)?;
        gauge(out, "dht_published_limit", "Keys of this node that may be provided at once", network.max_published as u64)?;
        counter(out, "dht_displaced", "Keys of this node that made room for others at the limit", network.counters.displaced_total)?;
        gauge(out, "dht_records", "Records that are held", network.records as u64)?;
        gauge(out, "dht_provided_keys", "Keys whose providers are known, this node among them", network.provided_keys as u64)
    }
}

#[rustfmt::skip]
fn encode_counters(counts: &Counters, out: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let (seconds, plain) = (|ms: u64| ms as f64 / 1000.0, |ms: u64| ms as f64);
    histogram(out, "resolve_latency_seconds", "From a question to its answer, the cache's included", &counts.latency, seconds)?;
    histogram(out, "index_dht_lookup_ms", "How long the network was asked for one answer, in milliseconds", &counts.lookup, plain)?;
    counters(out, "backoff_retries", "What was tried again after a pause", "op", [("resolve", counts.retries_total)])?;
    counter(out, "resolve_deadline_hit", "Resolutions that ended without an answer at their deadline", counts.timeouts_total)?;
    counters(out, "resolve_cache", "What the cache said", "outcome", [
        ("hit", counts.hits_total),
        ("stale", counts.stale_hits_total),
        ("negative", counts.negative_hits_total),
        ("miss", counts.misses_total),
    ])?;
    counter(out, "resolve_rejoined", "Resolutions begun again because the one they had joined ended at an earlier deadline", counts.rejoined_total)?;
    // Peers name themselves, so no series carries one.
    counters(out, "breaker_open", "Requests to peers kept back by an open breaker: of the peer, or of the route to it", "target", [
        ("dht_peers", counts.peer_breaker_open_total),
        ("dht_routes", counts.route_breaker_open_total),
    ])?;
    counters(out, "resolve_failures", "Resolutions without an answer, by reason", "reason", [
        ("unknown", counts.unknown_total),
        ("queue_full", counts.queue_full_total),
        ("expected_wait", counts.shed_total),
        ("outbound_requests", counts.requests_full_total),
        ("peers_busy", counts.peers_busy_total),
        ("timeout", counts.timeouts_total),
        ("breaker_open", counts.breaker_open_total),
        ("unreadable", counts.unreadable_total),
        ("canceled", counts.canceled_total),
    ])?;
    counters(out, "resolve_questions", "Questions to peers: all, hedges among them, and those given up", "what", [
        ("asked", counts.questions_total),
        ("hedges", counts.hedges_total),
        ("hedges_denied", counts.hedges_denied_total),
        ("abandoned", counts.abandoned_total),
        ("lies", counts.lies_total),
    ])
}

/// Steps are counted in milliseconds and shown in what `unit` makes of them.
fn histogram(
    out: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counted: &Histogram,
    unit: impl Fn(u64) -> f64,
) -> fmt::Result {
    let ends = STEPS_MS.iter().map(|step| unit(*step));
    let ends = ends.chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = ends.zip(counted.counts).collect();
    let sum = unit(counted.sum_us) / 1000.0;
    let count = counted.counts.iter().sum();
    out.encode_descriptor(name, help, None, MetricType::Histogram)?
        .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}
