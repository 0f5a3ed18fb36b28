//! Counts of permits, in all and by key.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

/// How many permits are given.
#[derive(Default)]
pub(super) struct Total(pub(super) AtomicUsize);

pub(super) struct TotalPermit(Arc<Total>);

impl Total {
    pub(super) fn acquire(self: &Arc<Self>, bound: usize) -> Option<TotalPermit> {
        let more = |n| (n < bound).then_some(n + 1);
        let taken = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| TotalPermit(Arc::clone(self)))
    }
}

impl Drop for TotalPermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How many permits are given by key; a key leaves the map with its last.
pub(super) struct PerKey<K>(pub(super) Mutex<HashMap<K, usize>>);

pub(super) struct KeyPermit<K: Clone + Eq + Hash> {
    counts: Arc<PerKey<K>>,
    key: K,
}

impl<K> Default for PerKey<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> PerKey<K> {
    pub(super) fn count(&self, key: &K) -> usize {
        self.0.lock().get(key).copied().unwrap_or(0)
    }

    pub(super) fn acquire(self: &Arc<Self>, key: K, bound: usize) -> Option<KeyPermit<K>> {
        match self.0.lock().entry(key.clone()) {
            Entry::Occupied(mut entry) if *entry.get() < bound => *entry.get_mut() += 1,
            Entry::Vacant(entry) if bound > 0 => drop(entry.insert(1)),
            Entry::Occupied(_) | Entry::Vacant(_) => return None,
        }
        Some(KeyPermit {
            counts: Arc::clone(self),
            key,
        })
    }
}

impl<K: Clone + Eq + Hash> Drop for KeyPermit<K> {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.counts.0.lock().entry(self.key.clone()) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}
