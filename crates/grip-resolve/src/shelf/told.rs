//! Of what the network was told.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use grip_dht::RecordKey;
use grip_nostr::RepoAddr;

use crate::{Key, ManifestId};

/// The repositories of which the network was told, with the ids of their manifests.
///
/// Its size is that of the repositories on disk, which admission bounds, and of the pins.
#[derive(Default)]
pub(crate) struct Told {
    by_name: BTreeMap<RepoAddr, Entry>,
    by_record: HashMap<RecordKey, RepoAddr>,
}

#[derive(Default)]
struct Entry {
    ids: BTreeSet<ManifestId>,
    /// The pass that saw it last, and the one in which it was told last.
    pass: u64,
    told_in: u64,
}

impl Told {
    pub fn name_of(&self, record: &RecordKey) -> Option<RepoAddr> {
        self.by_record.get(record).cloned()
    }

    pub fn ids(&self, name: &RepoAddr) -> BTreeSet<ManifestId> {
        let entry = self.by_name.get(name);
        entry.map(|entry| entry.ids.clone()).unwrap_or_default()
    }

    /// These are its ids now; none if it is gone.
    pub fn set(&mut self, name: &RepoAddr, ids: BTreeSet<ManifestId>, pass: u64) {
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
        entry.pass = pass;
    }

    /// The network was told of it.
    pub fn told(&mut self, name: &RepoAddr, pass: u64) {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.told_in = pass;
        }
    }

    pub fn was_told_in(&self, name: &RepoAddr, pass: u64) -> bool {
        let entry = self.by_name.get(name);
        entry.is_some_and(|entry| entry.told_in == pass)
    }

    /// Those that no pass has seen since `pass` began.
    pub fn unseen_since(&self, pass: u64) -> Vec<RepoAddr> {
        let unseen = self.by_name.iter().filter(|(_, entry)| entry.pass < pass);
        unseen.map(|(name, _)| name.clone()).collect()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }
}
