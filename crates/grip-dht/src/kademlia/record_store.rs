//! Records that this node stores, its own and those of others.
//!
//! Invariants:
//! - What is held for others is bounded in number and bytes. At the bound, a source that has more
//!   than its share loses the record that is farthest from us: see [`shares`]. Where none has, the
//!   farthest record goes, because others are nearer to it.
//! - A record stays charged to the source that brought it first while that is within its share, also
//!   when another brings a newer value: else a stranger could take the records of others into a share
//!   that he then exceeds.
//! - Provider records of others are bounded as well: see [`providers`].
//! - Records of our own are never pushed out; their number is bounded by the publisher.

mod providers;
mod shares;

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

pub(super) use self::shares::Source;
use self::{providers::Providers, shares::Shares};
use crate::{Distance, PeerName, RecordKey, limits};

pub(super) struct RecordStore {
    own: PeerId,
    /// For distances.
    name: PeerName,
    bounds: Bounds,
    records: HashMap<Key, Record>,
    /// Bytes of the values of others.
    bytes: usize,
    /// The records of others with their sources, by distance from us.
    far: BTreeMap<Distance, (Key, Source)>,
    shares: Shares,
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
            shares: Shares::new(bounds.records),
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

    /// Stores a record that `source` sent.
    pub(super) fn put_from(&mut self, record: Record, source: Source) -> Result<()> {
        let distance = self.distance(&record.key).ok_or(Error::ValueTooLarge)?;
        if record.value.len() > limits::RECORD_BYTES {
            return Err(Error::ValueTooLarge);
        }
        let key = record.key.clone();
        let charged = self.far.get(&distance).map(|(_, source)| *source);
        let charged = charged.filter(|source| !self.shares.is_exceeded(source));
        self.remove(&key);
        if !self.is_ours(&record) {
            let source = charged.unwrap_or(source);
            self.bytes += record.value.len();
            self.shares.add(source, distance, self.places(&record));
            self.far.insert(distance, (key.clone(), source));
        }
        self.records.insert(key.clone(), record);
        while self.is_too_full() {
            let Some(least_wanted) = self.least_wanted() else {
                break;
            };
            self.remove(&least_wanted);
        }
        if self.records.contains_key(&key) {
            Ok(())
        } else {
            Err(Error::MaxRecords)
        }
    }

    /// Adds or renews a provider record that `source` sent.
    pub(super) fn add_provider_from(
        &mut self,
        record: ProviderRecord,
        source: Source,
    ) -> Result<()> {
        let distance = self.distance(&record.key).ok_or(Error::ValueTooLarge)?;
        if record.provider == self.own {
            self.provided.insert(record.key.clone(), record);
            return Ok(());
        }
        let added = self.providers.add(record, source, distance, Instant::now());
        if added {
            Ok(())
        } else {
            Err(Error::MaxProvidedKeys)
        }
    }

    /// The places of a record in the share of its source: one, and one more for each mean value
    /// that its own is as long as.
    fn places(&self, record: &Record) -> usize {
        let mean = self.bounds.bytes / self.bounds.records.max(1);
        1 + record.value.len() / mean.max(1)
    }

    fn least_wanted(&self) -> Option<Key> {
        let (key, _) = match self.shares.excess() {
            Some((_, distance)) => self.far.get(&distance)?,
            None => self.far.last_key_value()?.1,
        };
        Some(key.clone())
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
        self.put_from(record, Source::Peer(self.own))
    }

    fn remove(&mut self, key: &Key) {
        let Some(record) = self.records.remove(key) else {
            return;
        };
        if let Some(distance) = self.distance(key).filter(|_| !self.is_ours(&record)) {
            self.bytes -= record.value.len();
            if let Some((_, source)) = self.far.remove(&distance) {
                let places = self.places(&record);
                self.shares.remove(source, distance, places);
            }
        }
    }

    fn records(&self) -> Records<'_> {
        self.records.values().map(Cow::Borrowed)
    }

    fn add_provider(&mut self, record: ProviderRecord) -> Result<()> {
        let source = Source::Peer(record.provider);
        self.add_provider_from(record, source)
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
