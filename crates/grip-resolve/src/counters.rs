//! Counters of the resolver.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Serialize;

/// Upper bounds of the histogram buckets, in milliseconds; above the last is one more.
pub const STEPS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 150, 250, 500, 1_000, 1_200];

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Counters while the resolver runs.
        #[derive(Default)]
        pub(crate) struct LiveCounters {
            $(pub $name: AtomicU64,)+
            pub latency: LiveHistogram,
            pub lookup: LiveHistogram,
        }

        /// The counters at one moment.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
            /// How long resolutions took (`resolve_latency_seconds`).
            pub latency: Histogram,
            /// How long lookups took (`index_dht_lookup_ms`).
            pub lookup: Histogram,
        }

        impl LiveCounters {
            pub fn snapshot(&self) -> Counters {
                Counters {
                    $($name: self.$name.load(Relaxed),)+
                    latency: self.latency.snapshot(),
                    lookup: self.lookup.snapshot(),
                }
            }
        }
    };
}

counters! {
    /// Answered from the cache, fresh.
    hits_total,
    /// Answered from the cache while the key is resolved again.
    stale_hits_total,
    /// "Unknown", from the cache.
    negative_hits_total,
    /// Not in the cache.
    misses_total,
    /// Of the misses: joined a resolution in flight.
    shared_total,
    /// Resolved again in the background.
    revalidations_total,
    /// Answered from local manifests.
    local_total,
    /// Lookups over the network.
    walks_total,
    /// Requests to peers, hedges and retries included.
    questions_total,
    hedges_total,
    /// Hedges that were due and that the budget did not allow.
    hedges_denied_total,
    /// Retries (`backoff_retries_total`).
    retries_total,
    /// Responses that did not prove themselves.
    lies_total,
    /// Requests dropped before their response.
    abandoned_total,
    /// Of the misses: began again because the joined flight ended at an earlier deadline.
    rejoined_total,
    /// Refused at once because the queue is full (`queue_dropped_total`).
    queue_full_total,
    /// Refused at once because the turn would come too late.
    shed_total,
    /// Ended because as many requests to peers are in flight as may.
    requests_full_total,
    /// Ended because peers refused as busy.
    peers_busy_total,
    /// Ended by the deadline (`io_timeouts_total`, `resolve_deadline_hit`).
    timeouts_total,
    unknown_total,
    /// Resolutions that ended because the breakers of some peers were open.
    breaker_open_total,
    /// Requests that the open breaker of a peer, or of the route to it, kept back
    /// (`breaker_open_total`).
    peer_breaker_open_total,
    route_breaker_open_total,
    /// Local manifests could not be read.
    unreadable_total,
    /// Ended by the stop of the node (`tasks_canceled_total`).
    canceled_total,
    /// Published repositories.
    published_total,
    publish_failures_total,
    withdrawn_total,
}

/// A histogram while the resolver runs.
#[derive(Default)]
pub(crate) struct LiveHistogram {
    counts: [AtomicU64; STEPS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Histogram {
    /// One for each of [`STEPS_MS`] and one for what took longer; not summed up.
    pub counts: [u64; STEPS_MS.len() + 1],
    pub sum_us: u64,
}

impl LiveHistogram {
    pub fn note(&self, took: Duration) {
        let fits = |step: &u64| took <= Duration::from_millis(*step);
        let at = STEPS_MS.iter().position(fits).unwrap_or(STEPS_MS.len());
        self.counts[at].fetch_add(1, Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Relaxed);
    }

    fn snapshot(&self) -> Histogram {
        Histogram {
            counts: std::array::from_fn(|at| self.counts[at].load(Relaxed)),
            sum_us: self.sum_us.load(Relaxed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
