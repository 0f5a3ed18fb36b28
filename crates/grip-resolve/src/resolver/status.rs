//! Status of the resolver.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use grip_dht::PeerName;
use grip_limits::BreakerState;

use super::Resolver;
use crate::{counters::Counters, publisher};

/// The resolver at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    pub counters: Counters,
    pub pipeline: Health,
    pub publisher: publisher::Status,
    /// The network, if there is one.
    pub network: Option<grip_dht::Status>,
    /// Peers whose breaker is not closed, by name (`breaker_state`).
    pub breakers: Vec<(PeerName, BreakerState)>,
}

/// Use of the resolver's bounded parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Resolutions that wait for a worker (`queue_depth{queue="resolve"}`), and how many may.
    pub queue_depth: usize,
    pub queue_capacity: usize,
    pub workers_busy: usize,
    pub workers: usize,
    pub cached: u64,
    pub cached_bytes: u64,
    pub pins: usize,
}

impl Resolver {
    pub fn counters(&self) -> Counters {
        self.core().counters.snapshot()
    }

    /// How long an answer counts as fresh at present.
    pub fn hit_ttl(&self) -> Duration {
        self.core().options.get().hit_ttl
    }

    /// The network, if there is one.
    pub fn network_status(&self) -> Option<grip_dht::Status> {
        let network = self.core().network.as_ref();
        network.map(|network| network.dht.status())
    }

    pub fn status(&self) -> Status {
        let core = self.core();
        let (cached, cached_bytes) = core.cache.size();
        let network = core.network.as_ref();
        Status {
            counters: self.counters(),
            pipeline: Health {
                queue_depth: core.flights.queued(),
                queue_capacity: core.queue_capacity,
                workers_busy: core.busy_workers.load(Relaxed),
                workers: core.workers,
                cached,
                cached_bytes,
                pins: core.local_manifests.pins(),
            },
            publisher: core.publisher.status(core),
            network: self.network_status(),
            breakers: network.map_or_else(Vec::new, |n| n.breakers.states()),
        }
    }
}
