//! Counters and status of one node, shared by its tasks.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::{Counters, PeerName, Reachability, Status, status::LiveCounters};

pub(super) struct Stats {
    pub(super) counts: LiveCounters,
    /// As of the last update by the swarm task; its counters are unused.
    status: Mutex<Status>,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Stats {
    pub(super) fn new(peer: PeerName) -> Self {
        let status = Status {
            peer,
            listening: Vec::new(),
            external: Vec::new(),
            reachability: Reachability::default(),
            connected_peers: 0,
            known_peers: 0,
            records: 0,
            provided_keys: 0,
            published_keys: 0,
            max_published: 0,
            counters: Counters::default(),
        };
        Self {
            counts: LiveCounters::default(),
            status: Mutex::new(status),
        }
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock());
    }

    pub(super) fn refused_addresses(&self, n: u64) {
        let counter = &self.counts.addresses_refused_total;
        counter.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> Status {
        Status {
            counters: self.counts.snapshot(),
            ..self.status.lock().clone()
        }
    }
}
