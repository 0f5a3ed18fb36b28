//! What happened since the start, as plain numbers.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use serde::Serialize;

/// Upper ends of the histograms' steps, in milliseconds; above the last is one more.
pub const STEPS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 150, 250, 500, 1_000, 1_200];

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Counts as things happen.
        #[derive(Default)]
        pub(crate) struct LiveCounters {
            $(pub $name: AtomicU64,)+
            pub latency: LiveHistogram,
            pub lookup: LiveHistogram,
        }

        /// The counts of one moment.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
            /// How long resolutions took (`resolve_latency_seconds`).
            pub latency: Histogram,
            /// How long the network was asked (`index_dht_lookup_ms`).
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
    /// Answered from the cache while a new answer is looked for.
    stale_hits_total,
    /// "Nobody knows it", from the cache.
    negative_hits_total,
    /// Not in the cache.
    misses_total,
    /// Of the misses: waited for a resolution that was under way already.
    shared_total,
    /// Looked for again in the background.
    revalidations_total,
    /// Answered from what is served or pinned here.
    local_total,
    /// Times the network was asked.
    walks_total,
    /// Requests to peers, hedges and those asked again included.
    questions_total,
    hedges_total,
    /// Hedges that were due and that the budget did not allow.
    hedges_denied_total,
    /// Requests asked again (`backoff_retries_total`).
    retries_total,
    /// Answers that did not prove themselves.
    lies_total,
    /// Requests given up before their answer came.
    abandoned_total,
    /// Refused at once (`busy_rejections_total`, `queue_dropped_total`).
    busy_total,
    /// Ended by the deadline (`io_timeouts_total`, `resolve_deadline_hit`).
    timeouts_total,
    unknown_total,
    /// Not all peers could be asked (`breaker_open_total`).
    breaker_open_total,
    /// What is served here could not be read.
    unreadable_total,
    /// Ended by the stop of the node (`tasks_canceled_total`).
    canceled_total,
    /// Repositories that the network was told of.
    published_total,
    publish_failures_total,
    withdrawn_total,
}

/// Counts durations by their length.
#[derive(Default)]
pub(crate) struct LiveHistogram {
    counts: [AtomicU64; STEPS_MS.len() + 1],
    sum_us: AtomicU64,
}

/// How many took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
