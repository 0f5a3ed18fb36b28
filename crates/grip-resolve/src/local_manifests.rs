//! Manifests of the repositories this node serves, its pins, and its node record.
//!
//! Requests of peers are answered from here, and the records they offer are validated here. Made
//! before the network is entered, so that the network never sees half of it.

mod published;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{LocalRecords, RecordKey, RecordValidator, Verdict};
use grip_nostr::{Event, RepoAddr, RepositoryEvents, ServedEvents};
use grip_tasks::{ChangeSet, Changed, TaskGroup};
use moka::future::Cache;
use parking_lot::RwLock;

pub(crate) use published::PublishedManifests;

use crate::{
    InvalidManifest, Key, Manifest, ManifestId, node_record::unix_now, off_runtime,
    record_validation::validate,
};

/// Most pins; further ones are refused.
pub const MAX_PINS: usize = 1_000;
/// How long a manifest made for peers is reused, unless it is known to have changed.
const RECENT_TTL: Duration = Duration::from_secs(5);
/// Memory for those.
const RECENT_BYTES: u64 = 16 << 20;

/// What this node serves itself.
pub struct LocalManifests {
    served: Arc<dyn ServedEvents>,
    /// Owns the threads on which long manifests are made.
    group: TaskGroup,
    changes: Arc<ChangeSet<RepoAddr>>,
    published: RwLock<PublishedManifests>,
    /// By name and id; at most [`MAX_PINS`], each short enough for a record.
    pins: RwLock<BTreeMap<(RepoAddr, ManifestId), Manifest>>,
    recent: Cache<RepoAddr, Option<Manifest>>,
    node_record: ArcSwapOption<(RecordKey, Bytes)>,
}

/// A served repository could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the served repositories")]
pub struct LocalError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl LocalManifests {
    /// `changes` are the repositories whose events have changed; this is its one follower.
    pub fn new(
        served: Arc<dyn ServedEvents>,
        changes: Arc<ChangeSet<RepoAddr>>,
        group: TaskGroup,
    ) -> Arc<Self> {
        let weigh = |_: &RepoAddr, held: &Option<Manifest>| {
            let bytes = held.as_ref().map_or(0, |held| 3 * held.bytes().len());
            u32::try_from(bytes + 512).unwrap_or(u32::MAX)
        };
        let recent = Cache::builder()
            .max_capacity(RECENT_BYTES)
            .weigher(weigh)
            .time_to_live(RECENT_TTL)
            .build();
        Arc::new(Self {
            served,
            group,
            changes,
            published: RwLock::default(),
            pins: RwLock::default(),
            recent,
            node_record: ArcSwapOption::empty(),
        })
    }

    /// The local manifest of a key: served, pinned, or both joined.
    pub(crate) async fn find(&self, key: &Key) -> Result<Option<Manifest>, LocalError> {
        let id = match key {
            Key::Name(name) => return Ok(Manifest::join_all(self.all_of(name).await?)),
            Key::Manifest(id) => id,
        };
        if let Some(pinned) = self.pin_of(id) {
            return Ok(Some(pinned));
        }
        let Some(name) = self.published.read().name_of(&key.record()) else {
            return Ok(None);
        };
        let served = self.served_manifest(&name).await?;
        Ok(served.filter(|served| served.id() == *id))
    }

    /// All manifests of a repository: the served one, then the pins.
    pub(crate) async fn all_of(&self, name: &RepoAddr) -> Result<Vec<Manifest>, LocalError> {
        let served = self.served_manifest(name).await?;
        Ok(served.into_iter().chain(self.pins_of(name)).collect())
    }

    pub(crate) fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        self.served.page(after, limit)
    }

    pub(crate) async fn changed(&self) -> Changed<RepoAddr> {
        self.changes.next().await
    }

    /// The manifest of a served repository; none if it is not served, or is private.
    async fn served_manifest(&self, name: &RepoAddr) -> Result<Option<Manifest>, LocalError> {
        let events = self.served.events(name).await.map_err(LocalError)?;
        let Some(events) = events else {
            return Ok(None);
        };
        let bytes = bytes_of(&events);
        let made = off_runtime::run(&self.group, bytes, move || make(events)).await;
        match made.ok_or_else(|| LocalError("the node is stopping".into()))? {
            Ok(made) => Ok(Some(made)),
            Err(InvalidManifest::Private) => Ok(None),
            Err(error) => {
                tracing::warn!(%name, %error, "failed to make the manifest of a repository");
                Ok(None)
            }
        }
    }

    /// Drops the recent manifest of a repository that has changed.
    pub(crate) async fn forget(&self, name: &RepoAddr) {
        self.recent.invalidate(name).await;
    }

    pub(crate) fn published<T>(&self, change: impl FnOnce(&mut PublishedManifests) -> T) -> T {
        change(&mut self.published.write())
    }

    pub(crate) fn set_node_record(&self, key: RecordKey, record: Bytes) {
        self.node_record.store(Some(Arc::new((key, record))));
    }

    /// Pins a manifest; false if there are too many pins or it is too long.
    pub(crate) fn pin(&self, manifest: &Manifest) -> bool {
        let mut pins = self.pins.write();
        let key = (manifest.name(), manifest.id());
        if !manifest.fits_a_record() || (pins.len() >= MAX_PINS && !pins.contains_key(&key)) {
            return false;
        }
        pins.insert(key, manifest.clone());
        true
    }

    pub(crate) fn has_room_for(&self, manifest: &Manifest) -> bool {
        let pins = self.pins.read();
        pins.len() < MAX_PINS || pins.contains_key(&(manifest.name(), manifest.id()))
    }

    /// Makes `pinned` the only pins that `key` names; returns the repositories whose pins changed.
    pub(crate) fn set_pins(&self, key: &Key, pinned: &[Manifest]) -> BTreeSet<RepoAddr> {
        let is_named = |name: &RepoAddr, id: &ManifestId| match key {
            Key::Name(named) => named == name,
            Key::Manifest(named) => named == id,
        };
        let stays = |id: &ManifestId| pinned.iter().any(|pin| pin.id() == *id);
        let mut pins = self.pins.write();
        let gone = pins.extract_if(.., |(name, id), _| is_named(name, id) && !stays(id));
        let mut changed: BTreeSet<RepoAddr> = gone.map(|((name, _), _)| name).collect();
        for manifest in pinned {
            let key = (manifest.name(), manifest.id());
            if pins.len() < MAX_PINS && !pins.contains_key(&key) {
                changed.insert(manifest.name());
                pins.insert(key, manifest.clone());
            }
        }
        changed
    }

    pub(crate) fn pin_of(&self, id: &ManifestId) -> Option<Manifest> {
        let pins = self.pins.read();
        pins.values().find(|pin| pin.id() == *id).cloned()
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
        let pins = self.pins.read();
        let of_name = pins.values().filter(|pin| pin.name() == *name);
        of_name.cloned().collect()
    }

    /// As [`LocalManifests::find`] for the key of a record.
    async fn record(&self, key: &RecordKey) -> Option<Bytes> {
        if let Some(record) = self.node_record.load_full().filter(|it| it.0 == *key) {
            return Some(record.1.clone());
        }
        let name = self.published.read().name_of(key)?;
        let by_name = Key::Name(name.clone());
        let current = match self.recent.get(&name).await {
            Some(current) => current,
            None => {
                let read = self.find(&by_name).await;
                let current = read
                    .inspect_err(|error| tracing::warn!(%name, %error, "failed to read manifest"))
                    .ok()?;
                self.recent.insert(name.clone(), current.clone()).await;
                current
            }
        };
        if by_name.record() == *key {
            return current.map(|current| current.bytes().clone());
        }
        let all = current.into_iter().chain(self.pins_of(&name));
        let mut found = all.filter(|it| Key::Manifest(it.id()).record() == *key);
        found.next().map(|found| found.bytes().clone())
    }
}

/// The manifest of a repository, with its signatures checked.
fn make(events: RepositoryEvents) -> Result<Manifest, InvalidManifest> {
    let RepositoryEvents {
        announcement,
        others,
        state,
    } = events;
    match Manifest::make(announcement.clone(), others, state) {
        // The announcement that makes the state's author a maintainer is not served, or too long:
        // the owner's announcement stands alone.
        Err(InvalidManifest::NotAMaintainer | InvalidManifest::TooLong) => {
            Manifest::make(announcement, Vec::new(), None)
        }
        made => made,
    }
}

/// How long the manifest of these events is, roughly.
fn bytes_of(events: &RepositoryEvents) -> usize {
    let of = |event: &Event| {
        let tags = event.tags.iter().flat_map(|tag| tag.as_slice());
        event.content.len() + tags.map(|text| text.len() + 3).sum::<usize>() + 400
    };
    let others = events.others.iter().chain(&events.state);
    of(&events.announcement) + others.map(of).sum::<usize>()
}

impl LocalRecords for LocalManifests {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(self.record(key))
    }
}

impl RecordValidator for LocalManifests {
    fn validate(&self, key: &RecordKey, offered: &[u8], held: Option<&[u8]>) -> Verdict {
        validate(key, offered, held, unix_now())
    }
}

#[cfg(test)]
mod tests;
