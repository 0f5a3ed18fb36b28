//! Provider records of others.
//!
//! Invariants:
//! - Bounded in records, whatever their keys. At the bound, a source that has more than its share
//!   loses the key that is farthest from us; where none has, the farthest key goes.
//! - A key has at most as many providers as a response. One that renews its record in time is not
//!   pushed out by newcomers, however many names they have, unless its host has more of the key's
//!   places than theirs.

use std::{
    collections::{BTreeMap, HashMap},
    time::Instant,
};

use libp2p::{
    PeerId,
    kad::{ProviderRecord, RecordKey as Key},
};

use super::shares::{Shares, Source};
use crate::{Distance, limits};

/// Most addresses kept of one provider of one key.
const ADDRESSES: usize = 3;

pub(super) struct Providers {
    most: usize,
    records: usize,
    /// The least recently renewed first; never empty.
    by_key: HashMap<Key, Vec<Held>>,
    /// The same keys, by distance from us.
    far: BTreeMap<Distance, Key>,
    shares: Shares,
}

struct Held {
    record: ProviderRecord,
    source: Source,
}

impl Providers {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            records: 0,
            by_key: HashMap::new(),
            far: BTreeMap::new(),
            shares: Shares::new(most),
        }
    }

    pub(super) fn key_count(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn of(&self, key: &Key) -> impl Iterator<Item = &ProviderRecord> {
        self.held(key).iter().map(|held| &held.record)
    }

    fn held(&self, key: &Key) -> &[Held] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// Adds or renews a record; false if there is no room for it.
    pub(super) fn add(
        &mut self,
        mut record: ProviderRecord,
        source: Source,
        distance: Distance,
        now: Instant,
    ) -> bool {
        let (key, provider) = (record.key.clone(), record.provider);
        record.addresses.truncate(ADDRESSES);
        record.addresses.shrink_to_fit();
        if let Some(held) = self.by_key.get_mut(&key)
            && let Some(at) = held.iter().position(|it| it.record.provider == provider)
        {
            // Charged to the host that it is at now.
            self.shares.remove(held.remove(at).source, distance, 1);
            self.shares.add(source, distance, 1);
            held.push(Held { record, source });
            return true;
        }
        if self.held(&key).len() >= limits::PEERS {
            let Some(displaced) = self.displaced_by(&record, source, now) else {
                return false;
            };
            self.remove(&key, &displaced, distance);
        }
        self.insert(Held { record, source }, distance);
        while self.records > self.most {
            self.make_room();
        }
        self.of(&key).any(|it| it.provider == provider)
    }

    pub(super) fn remove(&mut self, key: &Key, provider: &PeerId, distance: Distance) {
        let Some(held) = self.by_key.get_mut(key) else {
            return;
        };
        let is_provider = |it: &Held| it.record.provider == *provider;
        let Some(at) = held.iter().position(is_provider) else {
            return;
        };
        let source = held.remove(at).source;
        if held.is_empty() {
            self.by_key.remove(key);
            self.far.remove(&distance);
        }
        self.records -= 1;
        self.shares.remove(source, distance, 1);
    }

    /// All that has expired, as a key and its provider.
    pub(super) fn expired(&self, now: Instant) -> Vec<(Key, PeerId)> {
        let records = self.by_key.values().flatten().map(|held| &held.record);
        let expired = records.filter(|record| record.is_expired(now));
        expired
            .map(|record| (record.key.clone(), record.provider))
            .collect()
    }

    /// The provider whose place a newcomer takes where a key has none left: one that is late to renew
    /// its record, else the newest of the source that has most of them, if that still has as many as
    /// the newcomer's afterwards.
    fn displaced_by(
        &self,
        newcomer: &ProviderRecord,
        source: Source,
        now: Instant,
    ) -> Option<PeerId> {
        let held = self.held(&newcomer.key);
        let first = &held.first()?.record;
        if is_late(first, newcomer, now) {
            return Some(first.provider);
        }
        let places = |source| held.iter().filter(|it| it.source == source).count();
        // Of several, the last.
        let newest = held.iter().max_by_key(|it| places(it.source))?;
        (places(newest.source) > places(source) + 1).then_some(newest.record.provider)
    }

    fn insert(&mut self, held: Held, distance: Distance) {
        let key = held.record.key.clone();
        self.records += 1;
        self.shares.add(held.source, distance, 1);
        self.far.insert(distance, key.clone());
        self.by_key.entry(key).or_default().push(held);
    }

    fn make_room(&mut self) {
        if let Some((key, provider, distance)) = self.least_wanted() {
            self.remove(&key, &provider, distance);
        }
    }

    fn least_wanted(&self) -> Option<(Key, PeerId, Distance)> {
        let excess = self.shares.excess();
        let (distance, key) = match &excess {
            Some((_, distance)) => self.far.get_key_value(distance)?,
            None => self.far.last_key_value()?,
        };
        let is_due = |it: &&Held| excess.is_none_or(|(source, _)| it.source == source);
        // Of those of one key the newcomer goes.
        let held = self.held(key).iter().rfind(is_due)?;
        Some((key.clone(), held.record.provider, *distance))
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 5] {
        let listed = self.by_key.values().map(Vec::len).sum();
        let [sources, totals] = self.shares.sizes();
        [self.records, listed, self.far.len(), sources, totals]
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
