//! Provider records of others.
//!
//! Invariants:
//! - Bounded in records, whatever their keys. At the bound, a provider that has more than its share
//!   loses the key that is farthest from us; where none has, the farthest key goes.
//! - A key has at most as many providers as a response. One that renews its record in time is not
//!   pushed out by newcomers, however many names they have.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use libp2p::{
    PeerId,
    kad::{ProviderRecord, RecordKey as Key},
};

use crate::{Distance, limits};

/// A provider that has more than this part of all records is the first to lose some.
const SHARE: usize = 16;

/// Most addresses kept of one provider of one key.
const ADDRESSES: usize = 3;

pub(super) struct Providers {
    most: usize,
    records: usize,
    /// The least recently renewed first; never empty.
    by_key: HashMap<Key, Vec<ProviderRecord>>,
    /// The same keys, by distance from us.
    far: BTreeMap<Distance, Key>,
    /// The distances of the keys of each provider; never empty.
    by_provider: HashMap<PeerId, BTreeSet<Distance>>,
    /// The number of keys of each provider, the most last.
    key_counts: BTreeSet<(usize, PeerId)>,
}

impl Providers {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            records: 0,
            by_key: HashMap::new(),
            far: BTreeMap::new(),
            by_provider: HashMap::new(),
            key_counts: BTreeSet::new(),
        }
    }

    pub(super) fn key_count(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn of(&self, key: &Key) -> &[ProviderRecord] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// Adds or renews a record; false if there is no room for it.
    pub(super) fn add(
        &mut self,
        mut record: ProviderRecord,
        distance: Distance,
        now: Instant,
    ) -> bool {
        let (key, provider) = (record.key.clone(), record.provider);
        record.addresses.truncate(ADDRESSES);
        record.addresses.shrink_to_fit();
        if let Some(records) = self.by_key.get_mut(&key)
            && let Some(at) = records.iter().position(|it| it.provider == provider)
        {
            records.remove(at);
            records.push(record);
            return true;
        }
        let records = self.of(&key);
        if records.len() >= limits::PEERS {
            let first = &records[0];
            if !is_late(first, &record, now) {
                return false;
            }
            let first = first.provider;
            self.remove(&key, &first, distance);
        }
        self.insert(record, distance);
        while self.records > self.most {
            self.make_room();
        }
        self.of(&key).iter().any(|it| it.provider == provider)
    }

    pub(super) fn remove(&mut self, key: &Key, provider: &PeerId, distance: Distance) {
        let Some(records) = self.by_key.get_mut(key) else {
            return;
        };
        let before = records.len();
        records.retain(|record| record.provider != *provider);
        if records.len() == before {
            return;
        }
        if records.is_empty() {
            self.by_key.remove(key);
            self.far.remove(&distance);
        }
        self.records -= 1;
        self.resize(*provider, |keys| keys.remove(&distance));
    }

    /// All that has expired, as a key and its provider.
    pub(super) fn expired(&self, now: Instant) -> Vec<(Key, PeerId)> {
        let records = self.by_key.values().flatten();
        let expired = records.filter(|record| record.is_expired(now));
        expired
            .map(|record| (record.key.clone(), record.provider))
            .collect()
    }

    fn insert(&mut self, record: ProviderRecord, distance: Distance) {
        self.records += 1;
        self.far.insert(distance, record.key.clone());
        self.resize(record.provider, |keys| keys.insert(distance));
        let records = self.by_key.entry(record.key.clone()).or_default();
        records.push(record);
    }

    fn resize(&mut self, provider: PeerId, change: impl FnOnce(&mut BTreeSet<Distance>) -> bool) {
        let keys = self.by_provider.entry(provider).or_default();
        self.key_counts.remove(&(keys.len(), provider));
        change(keys);
        match keys.len() {
            0 => drop(self.by_provider.remove(&provider)),
            keys => drop(self.key_counts.insert((keys, provider))),
        }
    }

    fn make_room(&mut self) {
        if let Some((key, provider, distance)) = self.least_wanted() {
            self.remove(&key, &provider, distance);
        }
    }

    fn least_wanted(&self) -> Option<(Key, PeerId, Distance)> {
        let share = (self.most / SHARE).max(1);
        let greedy = self.key_counts.last().filter(|(keys, _)| *keys > share);
        if let Some((_, provider)) = greedy {
            let distance = *self.by_provider.get(provider)?.last()?;
            return Some((self.far.get(&distance)?.clone(), *provider, distance));
        }
        let (distance, key) = self.far.last_key_value()?;
        // Of those of one key the newcomer goes.
        let provider = self.of(key).last()?.provider;
        Some((key.clone(), provider, *distance))
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 5] {
        let listed = self.by_key.values().map(Vec::len).sum();
        let (far, key_counts) = (self.far.len(), self.key_counts.len());
        [
            self.records,
            listed,
            far,
            self.by_provider.len(),
            key_counts,
        ]
    }
}

/// Whether `record` has less than half of the time left that the newer one has.
fn is_late(record: &ProviderRecord, newer: &ProviderRecord, now: Instant) -> bool {
    let left = |record: &ProviderRecord| {
        let expires = record.expires?;
        Some(expires.saturating_duration_since(now))
    };
    match (left(record), left(newer)) {
        (Some(left), Some(newer)) => left * 2 < newer,
        (Some(_), None) => true,
        (None, _) => false,
    }
}
