//! Records that this node stores, its own and those of others.
//!
//! Invariants:
//! - What is held for others is bounded in number and bytes. At the bound the record farthest
//!   from us goes, because others are nearer to it: a flood of records pushes out those that are
//!   not ours to keep, and not more.
//! - Provider records of others are bounded as well: see [`providers`].
//! - Records of our own are never pushed out; their number is bounded by the publisher.

mod providers;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, hash_map},
    iter::Map,
    time::Instant,
};

use libp2p::{
    PeerId,
    kad::{
        ProviderRecord, Record, RecordKey as Key,
        store::{self, Error, RecordStore as _, Result},
    },
};

use self::providers::Providers;
use crate::{Distance, PeerName, RecordKey, limits};

pub(super) struct RecordStore {
    own: PeerId,
    /// For distances.
    name: PeerName,
    bounds: Bounds,
    records: HashMap<Key, Record>,
    /// Bytes of the values of others.
    bytes: usize,
    /// Of the records of others, by distance from us.
    far: BTreeMap<Distance, Key>,
    providers: Providers,
    provided: HashMap<Key, ProviderRecord>,
}

pub(super) struct Bounds {
    pub records: usize,
    pub bytes: usize,
    pub providers: usize,
}

impl RecordStore {
    pub(super) fn new(own: PeerId, name: PeerName, bounds: Bounds) -> Self {
        Self {
            own,
            name,
            providers: Providers::new(bounds.providers),
            bounds,
            records: HashMap::new(),
            bytes: 0,
            far: BTreeMap::new(),
            provided: HashMap::new(),
        }
    }

    pub(super) fn record_count(&self) -> usize {
        self.records.len()
    }

    pub(super) fn provided_count(&self) -> usize {
        self.providers.key_count() + self.provided.len()
    }

    /// Whether the record under `key` is one of our own.
    pub(super) fn is_own(&self, key: &Key) -> bool {
        self.records
            .get(key)
            .is_some_and(|record| self.is_ours(record))
    }

    /// Postpones the expiry of a record; one of our own has none.
    pub(super) fn renew(&mut self, key: &Key, until: Instant) {
        let record = self.records.get_mut(key);
        if let Some(expires) = record.and_then(|record| record.expires.as_mut()) {
            *expires = until.max(*expires);
        }
    }

    pub(super) fn remove_expired(&mut self, now: Instant) {
        let expired = self
            .records
            .values()
            .filter(|record| record.is_expired(now));
        let expired: Vec<Key> = expired.map(|record| record.key.clone()).collect();
        for key in expired {
            self.remove(&key);
        }
        for (key, provider) in self.providers.expired(now) {
            self.remove_provider(&key, &provider);
        }
    }

    fn is_ours(&self, record: &Record) -> bool {
        record.publisher == Some(self.own)
    }

    fn distance(&self, key: &Key) -> Option<Distance> {
        let key = RecordKey::new(key.to_vec()).ok()?;
        Some(key.distance(&self.name))
    }

    fn is_too_full(&self) -> bool {
        self.far.len() > self.bounds.records || self.bytes > self.bounds.bytes
    }
}

type Records<'a> = Map<hash_map::Values<'a, Key, Record>, fn(&'a Record) -> Cow<'a, Record>>;
type Provided<'a> = Map<
    hash_map::Values<'a, Key, ProviderRecord>,
    fn(&'a ProviderRecord) -> Cow<'a, ProviderRecord>,
>;

impl store::RecordStore for RecordStore {
    type RecordsIter<'a> = Records<'a>;
    type ProvidedIter<'a> = Provided<'a>;

    fn get(&self, key: &Key) -> Option<Cow<'_, Record>> {
        self.records.get(key).map(Cow::Borrowed)
    }

    fn put(&mut self, record: Record) -> Result<()> {
        let distance = self.distance(&record.key).ok_or(Error::ValueTooLarge)?;
        if record.value.len() > limits::RECORD_BYTES {
            return Err(Error::ValueTooLarge);
        }
        let key = record.key.clone();
        self.remove(&key);
        if !self.is_ours(&record) {
            self.bytes += record.value.len();
            self.far.insert(distance, key.clone());
        }
        self.records.insert(key.clone(), record);
        while self.is_too_full() {
            let Some((_, farthest)) = self.far.last_key_value() else {
                break;
            };
            self.remove(&farthest.clone());
        }
        if self.records.contains_key(&key) {
            Ok(())
        } else {
            Err(Error::MaxRecords)
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(record) = self.records.remove(key) else {
            return;
        };
        if let Some(distance) = self.distance(key).filter(|_| !self.is_ours(&record)) {
            self.bytes -= record.value.len();
            self.far.remove(&distance);
        }
    }

    fn records(&self) -> Records<'_> {
        self.records.values().map(Cow::Borrowed)
    }

    fn add_provider(&mut self, record: ProviderRecord) -> Result<()> {
        let distance = self.distance(&record.key).ok_or(Error::ValueTooLarge)?;
        if record.provider == self.own {
            self.provided.insert(record.key.clone(), record);
            return Ok(());
        }
        if self.providers.add(record, distance, Instant::now()) {
            Ok(())
        } else {
            Err(Error::MaxProvidedKeys)
        }
    }

    fn providers(&self, key: &Key) -> Vec<ProviderRecord> {
        let own = self.provided.get(key).into_iter();
        let others = self.providers.of(key);
        own.chain(others).take(limits::PEERS).cloned().collect()
    }

    fn provided(&self) -> Provided<'_> {
        self.provided.values().map(Cow::Borrowed)
    }

    fn remove_provider(&mut self, key: &Key, provider: &PeerId) {
        if *provider == self.own {
            self.provided.remove(key);
            return;
        }
        if let Some(distance) = self.distance(key) {
            self.providers.remove(key, provider, distance);
        }
    }
}

#[cfg(test)]
mod tests;
