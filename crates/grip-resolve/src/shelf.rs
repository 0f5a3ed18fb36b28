//! What this node itself has: served repositories, pins, its card.
//!
//! Peers that ask are answered from here, and what they offer is judged here. Made before the
//! network is entered, so that the network never sees half of it.

mod judge;
mod told;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{Local, RecordKey};
use grip_nostr::RepoAddr;
use moka::future::Cache;
use parking_lot::RwLock;

pub(crate) use judge::now;
pub(crate) use told::Told;

use crate::{Changed, Key, LocalError, Manifest, ManifestId, Repositories};

/// Pins at most; more are refused.
pub const MAX_PINS: usize = 1_000;
/// How long a served manifest is not put together anew for peers, unless it is known to have
/// changed.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Memory for those.
const REMEMBERED_BYTES: u64 = 16 << 20;

/// What is here for others.
pub struct Shelf {
    local: Arc<dyn Repositories>,
    told: RwLock<Told>,
    /// By name and id; at most [`MAX_PINS`], each short enough for a record.
    pins: RwLock<BTreeMap<(RepoAddr, ManifestId), Manifest>>,
    remembered: Cache<RepoAddr, Option<Manifest>>,
    card: ArcSwapOption<(RecordKey, Bytes)>,
}

impl Shelf {
    pub fn new(local: Arc<dyn Repositories>) -> Arc<Self> {
        let weigh = |_: &RepoAddr, held: &Option<Manifest>| {
            let bytes = held.as_ref().map_or(0, |held| 3 * held.bytes().len());
            u32::try_from(bytes + 512).unwrap_or(u32::MAX)
        };
        let remembered = Cache::builder()
            .max_capacity(REMEMBERED_BYTES)
            .weigher(weigh)
            .time_to_live(REMEMBERED)
            .build();
        Arc::new(Self {
            local,
            told: RwLock::default(),
            pins: RwLock::default(),
            remembered,
            card: ArcSwapOption::empty(),
        })
    }

    /// What is here under a key: served, pinned, or both joined.
    pub(crate) async fn find(&self, key: &Key) -> Result<Option<Manifest>, LocalError> {
        match key {
            Key::Name(name) => Ok(Manifest::join_all(self.holdings(name).await?)),
            Key::Manifest(id) => {
                let pinned = self.pin_of(id);
                let name = self.told.read().name_of(&key.record());
                match (pinned, name) {
                    (Some(pinned), _) => Ok(Some(pinned)),
                    (None, Some(name)) => {
                        let served = self.local.manifest(&name).await?;
                        Ok(served.filter(|served| served.id() == *id))
                    }
                    (None, None) => Ok(None),
                }
            }
        }
    }

    /// All that is here of a repository: what is served, then what is pinned.
    pub(crate) async fn holdings(&self, name: &RepoAddr) -> Result<Vec<Manifest>, LocalError> {
        let mut held: Vec<Manifest> = self.local.manifest(name).await?.into_iter().collect();
        held.extend(self.pins_of(name));
        Ok(held)
    }

    pub(crate) async fn page(
        &self,
        after: Option<&RepoAddr>,
        limit: usize,
    ) -> Result<Vec<RepoAddr>, LocalError> {
        self.local.page(after, limit).await
    }

    pub(crate) async fn changed(&self) -> Changed {
        self.local.changed().await
    }

    /// Something has happened to a repository: what is remembered of it is old.
    pub(crate) async fn forget(&self, name: &RepoAddr) {
        self.remembered.invalidate(name).await;
    }

    pub(crate) fn told<T>(&self, change: impl FnOnce(&mut Told) -> T) -> T {
        change(&mut self.told.write())
    }

    pub(crate) fn set_card(&self, record: RecordKey, card: Bytes) {
        self.card.store(Some(Arc::new((record, card))));
    }

    /// Keeps a manifest; false if there are too many or it is too long.
    pub(crate) fn pin(&self, manifest: &Manifest) -> bool {
        let mut pins = self.pins.write();
        let place = (manifest.name(), manifest.id());
        if !manifest.fits_a_record() || (pins.len() >= MAX_PINS && !pins.contains_key(&place)) {
            return false;
        }
        pins.insert(place, manifest.clone());
        true
    }

    pub(crate) fn has_room_for(&self, manifest: &Manifest) -> bool {
        let pins = self.pins.read();
        pins.len() < MAX_PINS || pins.contains_key(&(manifest.name(), manifest.id()))
    }

    /// Of what `key` names, exactly `kept` are pinned from now on; says of which repositories the
    /// pins have changed.
    pub(crate) fn set_pins(&self, key: &Key, kept: &[Manifest]) -> BTreeSet<RepoAddr> {
        let is_named = |name: &RepoAddr, id: &ManifestId| match key {
            Key::Name(named) => named == name,
            Key::Manifest(named) => named == id,
        };
        let stays = |id: &ManifestId| kept.iter().any(|kept| kept.id() == *id);
        let mut pins = self.pins.write();
        let gone = pins.extract_if(.., |(name, id), _| is_named(name, id) && !stays(id));
        let mut changed: BTreeSet<RepoAddr> = gone.map(|((name, _), _)| name).collect();
        for manifest in kept {
            let place = (manifest.name(), manifest.id());
            if pins.len() < MAX_PINS && !pins.contains_key(&place) {
                changed.insert(manifest.name());
                pins.insert(place, manifest.clone());
            }
        }
        changed
    }

    pub(crate) fn pin_of(&self, id: &ManifestId) -> Option<Manifest> {
        self.pinned().find(|pin| pin.id() == *id)
    }

    pub(crate) fn pinned_names(&self) -> Vec<RepoAddr> {
        let pins = self.pins.read();
        let mut names: Vec<RepoAddr> = pins.keys().map(|(name, _)| name.clone()).collect();
        names.dedup();
        names
    }

    pub(crate) fn pins(&self) -> usize {
        self.pins.read().len()
    }

    fn pins_of(&self, name: &RepoAddr) -> Vec<Manifest> {
        let pins = self.pinned();
        pins.filter(|pin| pin.name() == *name).collect()
    }

    fn pinned(&self) -> impl Iterator<Item = Manifest> {
        let pins: Vec<Manifest> = self.pins.read().values().cloned().collect();
        pins.into_iter()
    }

    /// As [`Shelf::find`] for a record of the network.
    async fn answer(&self, record: &RecordKey) -> Option<Bytes> {
        if let Some(card) = self.card.load_full().filter(|card| card.0 == *record) {
            return Some(card.1.clone());
        }
        let name = self.told.read().name_of(record)?;
        let current = match self.remembered.get(&name).await {
            Some(current) => current,
            None => {
                let read = self.find(&Key::Name(name.clone())).await;
                let current = read
                    .inspect_err(|error| tracing::warn!(%name, %error))
                    .ok()?;
                self.remembered.insert(name.clone(), current.clone()).await;
                current
            }
        };
        if Key::Name(name.clone()).record() == *record {
            return current.map(|current| current.bytes().clone());
        }
        let held = current.into_iter().chain(self.pins_of(&name));
        let mut held = held.filter(|held| Key::Manifest(held.id()).record() == *record);
        held.next().map(|held| held.bytes().clone())
    }
}

impl Local for Shelf {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(self.answer(key))
    }
}

#[cfg(test)]
mod tests;
