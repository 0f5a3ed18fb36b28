//! Settings of the resolver.
//!
//! One snapshot, swapped as a whole and taken once for every piece of work, so that a changed setting
//! counts for the next one and no piece sees two; those that size something at the start are marked.

use std::time::Duration;

use grip_limits::BreakerOptions;

use crate::provider_ranking;

/// Settings of the resolver.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Requests sent at once, at least 1. Default 3.
    pub alpha: usize,
    /// Further requests once the hedge is due. Default 2.
    pub beta: usize,
    /// How long the first requests may take before the hedge is due, give or take a fifth.
    /// Default 150 ms.
    pub hedge: Duration,
    /// How long a resolution may take in all, waiting in the queue included. Default 1200 ms.
    pub deadline: Duration,
    /// How long one request may take: four round trips to a far peer if it is the first. Default 1 s.
    pub request_timeout: Duration,
    /// Most retries of a request that may succeed a moment later. Default 3.
    pub retries: u32,
    /// Most requests of one lookup, retries included. Default 32.
    pub max_requests: u32,
    /// How many of a hundred requests may be hedges. Default 5.
    pub hedge_percent: u32,
    /// Hedges beyond that within ten seconds, so that a quiet node can hedge at all. Default 10.
    pub hedge_burst: u32,
    /// How long an answer counts as fresh. Default 10 s.
    pub hit_ttl: Duration,
    /// How long "unknown" is cached. Default 2 s.
    pub negative_ttl: Duration,
    /// How long an answer that is no longer fresh is returned while the key is resolved again.
    /// Default 60 s.
    pub stale_for: Duration,
    /// Memory for answers, in bytes. Default 64 MiB. Needs a restart.
    pub cache_bytes: u64,
    /// Resolutions in flight. Default 64. Needs a restart.
    pub workers: usize,
    /// Resolutions that wait for a worker; further ones are refused. Default 512. Needs a restart.
    pub queue: usize,
    /// How long the node drains when it stops; resolutions end a little earlier. Default 5 s.
    pub drain: Duration,
    /// When a peer is left alone: more than half of at least 4 requests within 30 s failed; for
    /// 15 s, and until 2 probes succeeded. Needs a restart.
    pub breaker: BreakerOptions,
    pub ranking: provider_ranking::Options,
    pub publish: Publish,
}

/// Publication of what this node serves.
#[derive(Clone, Debug, PartialEq)]
pub struct Publish {
    /// How long the network keeps a record; everything is published again after a third of it.
    /// Default 24 hours.
    pub record_ttl: Duration,
    /// How long what failed waits for the next try. Default 30 s.
    pub retry: Duration,
    /// Most publications in flight. Default 4.
    pub at_once: usize,
    /// Shortest time between the starts of two publications. Default 20 ms.
    pub spacing: Duration,
    /// How often this node's record is signed again. Default 1 hour.
    pub node_record_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            alpha: 3,
            beta: 2,
            hedge: Duration::from_millis(150),
            deadline: Duration::from_millis(1_200),
            request_timeout: Duration::from_secs(1),
            retries: 3,
            max_requests: 32,
            hedge_percent: 5,
            hedge_burst: 10,
            hit_ttl: Duration::from_secs(10),
            negative_ttl: Duration::from_secs(2),
            stale_for: Duration::from_secs(60),
            cache_bytes: 64 << 20,
            workers: 64,
            queue: 512,
            drain: Duration::from_secs(5),
            breaker: BreakerOptions {
                tolerates_threshold: true,
                cooldown: Duration::from_secs(15),
                probes: 2,
                max_outcomes: 64,
                ..BreakerOptions::default()
            },
            ranking: provider_ranking::Options::default(),
            publish: Publish::default(),
        }
    }
}

impl Default for Publish {
    fn default() -> Self {
        Self {
            record_ttl: Duration::from_secs(24 * 60 * 60),
            retry: Duration::from_secs(30),
            at_once: 4,
            spacing: Duration::from_millis(20),
            node_record_interval: Duration::from_secs(60 * 60),
        }
    }
}
