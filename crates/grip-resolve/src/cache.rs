//! Cache of recent answers.
//!
//! Invariants:
//! - Ages are measured here, on the same clock as deadlines; the store below only bounds memory. At
//!   the bound the least used entries leave.
//! - The manifest of a name only gets newer, unless it is forgotten.

use std::{sync::Arc, time::Duration};

use grip_dht::Peer;
use moka::future::Cache as Store;
use tokio::time::Instant;

use crate::{Key, Manifest, Options, Source};

/// The result of a resolution.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub manifest: Manifest,
    pub providers: Vec<Peer>,
    pub source: Source,
    pub hops: u32,
    pub asked: u32,
}

#[derive(Clone)]
struct Entry {
    /// None: the key is unknown.
    answer: Option<Arc<Answer>>,
    at: Instant,
}

/// The cached state of a key.
pub(crate) enum CacheLookup {
    Fresh(Arc<Answer>),
    /// Good enough to return, and due to be resolved again.
    Stale(Arc<Answer>),
    Unknown,
    Miss,
}

pub(crate) struct Cache {
    store: Store<Key, Entry>,
}

impl Cache {
    pub fn new(bytes: u64) -> Self {
        let store = Store::builder()
            .max_capacity(bytes)
            .weigher(|_, entry: &Entry| weight(entry))
            // Ages are measured here; this frees the memory of unused entries.
            .time_to_live(Duration::from_secs(60 * 60))
            .build();
        Self { store }
    }

    pub async fn look(&self, key: &Key, options: &Options) -> CacheLookup {
        let Some(entry) = self.store.get(key).await else {
            return CacheLookup::Miss;
        };
        let age = entry.at.elapsed();
        match entry.answer {
            Some(answer) if age < options.hit_ttl => CacheLookup::Fresh(answer),
            Some(answer) if age < options.hit_ttl + options.stale_for => CacheLookup::Stale(answer),
            None if age < options.negative_ttl => CacheLookup::Unknown,
            _ => CacheLookup::Miss,
        }
    }

    /// The manifest of a key, however old.
    pub async fn held(&self, key: &Key) -> Option<Manifest> {
        let entry = self.store.get(key).await?;
        entry.answer.map(|answer| answer.manifest.clone())
    }

    /// Keeps an answer joined with the one that is held, and returns the joint.
    pub async fn put(&self, key: &Key, found: Arc<Answer>) -> Arc<Answer> {
        let mut joint = Arc::clone(&found);
        let join = |held: Option<moka::Entry<Key, Entry>>| {
            let held = held.and_then(|held| held.into_value().answer);
            if let Some(held) = held {
                joint = newest(&found, &held);
            }
            std::future::ready(Entry::new(Some(Arc::clone(&joint))))
        };
        self.store.entry_by_ref(key).and_upsert_with(join).await;
        joint
    }

    /// Keeps that the key is unknown.
    pub async fn put_unknown(&self, key: &Key) {
        self.store.insert(key.clone(), Entry::new(None)).await;
    }

    pub async fn forget(&self, key: &Key) {
        self.store.invalidate(key).await;
    }

    pub fn clear(&self) {
        self.store.invalidate_all();
    }

    /// Number of entries, and their weight.
    pub fn size(&self) -> (u64, u64) {
        (self.store.entry_count(), self.store.weighted_size())
    }
}

impl Entry {
    fn new(answer: Option<Arc<Answer>>) -> Self {
        let at = Instant::now();
        Self { answer, at }
    }
}

/// The found answer, with the held manifest if that is newer.
fn newest(found: &Arc<Answer>, held: &Answer) -> Arc<Answer> {
    let manifest = found.manifest.join(&held.manifest);
    if manifest == found.manifest {
        return Arc::clone(found);
    }
    Arc::new(Answer {
        manifest,
        ..Answer::clone(found)
    })
}

/// The encoded manifest and its parsed form, roughly.
fn weight(entry: &Entry) -> u32 {
    let bytes = match &entry.answer {
        Some(answer) => 3 * answer.manifest.bytes().len() + 512 * answer.providers.len(),
        None => 0,
    };
    u32::try_from(bytes + 1_024).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
