//! Index of the published manifests, by name and by record key.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use grip_dht::RecordKey;
use grip_nostr::RepoAddr;

use crate::{Key, ManifestId};

/// The published repositories, with the ids of their manifests.
///
/// Bounded by the repositories on disk, which admission bounds, and by the pins.
#[derive(Default)]
pub(crate) struct PublishedManifests {
    by_name: BTreeMap<RepoAddr, Entry>,
    by_record: HashMap<RecordKey, RepoAddr>,
}

#[derive(Default)]
struct Entry {
    ids: BTreeSet<ManifestId>,
    /// The scan that saw it last, and the one in which it was published last.
    scan: u64,
    published_in: u64,
}

impl PublishedManifests {
    pub fn name_of(&self, record: &RecordKey) -> Option<RepoAddr> {
        self.by_record.get(record).cloned()
    }

    pub fn ids(&self, name: &RepoAddr) -> BTreeSet<ManifestId> {
        let entry = self.by_name.get(name);
        entry.map(|entry| entry.ids.clone()).unwrap_or_default()
    }

    /// Sets its ids; none if it is gone.
    pub fn set(&mut self, name: &RepoAddr, ids: BTreeSet<ManifestId>, scan: u64) {
        let before = self.ids(name);
        for gone in before.difference(&ids) {
            self.by_record.remove(&Key::Manifest(*gone).record());
        }
        let own = Key::Name(name.clone()).record();
        if ids.is_empty() {
            self.by_record.remove(&own);
            self.by_name.remove(name);
            return;
        }
        self.by_record.insert(own, name.clone());
        for id in &ids {
            self.by_record
                .insert(Key::Manifest(*id).record(), name.clone());
        }
        let entry = self.by_name.entry(name.clone()).or_default();
        entry.ids = ids;
        entry.scan = scan;
    }

    pub fn mark_published(&mut self, name: &RepoAddr, scan: u64) {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.published_in = scan;
        }
    }

    pub fn was_published_in(&self, name: &RepoAddr, scan: u64) -> bool {
        let entry = self.by_name.get(name);
        entry.is_some_and(|entry| entry.published_in == scan)
    }

    /// Repositories that no scan has seen since `scan` began.
    pub fn unseen_since(&self, scan: u64) -> Vec<RepoAddr> {
        let unseen = self.by_name.iter().filter(|(_, entry)| entry.scan < scan);
        unseen.map(|(name, _)| name.clone()).collect()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }
}
