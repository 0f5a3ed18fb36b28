//! What the tasks of one node share: its name, its numbers, its last known state.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::{Counters, PeerName, Status};

pub(super) struct Stats {
    name: PeerName,
    pub(super) counts: Counts,
    view: Mutex<View>,
}

/// What only the swarm knows, as of its last look.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub listening: Vec<String>,
    pub external: Vec<String>,
    pub connected_peers: usize,
    pub known_peers: usize,
    pub records: usize,
    pub provided_keys: usize,
}

#[derive(Default)]
pub(super) struct Counts {
    pub asked: AtomicU64,
    pub answered: AtomicU64,
    pub abandoned: AtomicU64,
    pub requests: AtomicU64,
    pub busy: AtomicU64,
    pub broken: AtomicU64,
    pub kept: AtomicU64,
    pub ignored: AtomicU64,
    pub refused: AtomicU64,
    pub unjudged: AtomicU64,
    pub addresses_refused: AtomicU64,
    pub connections_refused: AtomicU64,
    pub published: AtomicU64,
    pub unpublished: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Stats {
    pub(super) fn new(name: PeerName) -> Self {
        Self {
            name,
            counts: Counts::default(),
            view: Mutex::default(),
        }
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.lock());
    }

    pub(super) fn refused_addresses(&self, n: u64) {
        self.counts
            .addresses_refused
            .fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> Status {
        let view = self.view.lock().clone();
        Status {
            peer: self.name.clone(),
            listening: view.listening,
            external: view.external,
            connected_peers: view.connected_peers,
            known_peers: view.known_peers,
            records: view.records,
            provided_keys: view.provided_keys,
            counters: self.counters(),
        }
    }

    fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        Counters {
            asked_total: read(&counts.asked),
            answered_total: read(&counts.answered),
            abandoned_total: read(&counts.abandoned),
            questions_total: read(&counts.requests),
            busy_total: read(&counts.busy),
            broken_total: read(&counts.broken),
            kept_total: read(&counts.kept),
            ignored_total: read(&counts.ignored),
            refused_total: read(&counts.refused),
            unjudged_total: read(&counts.unjudged),
            addresses_refused_total: read(&counts.addresses_refused),
            connections_refused_total: read(&counts.connections_refused),
            published_total: read(&counts.published),
            unpublished_total: read(&counts.unpublished),
        }
    }
}
