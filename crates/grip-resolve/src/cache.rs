//! What was resolved a moment ago.
//!
//! Invariant: ages are measured here, on the same clock as deadlines; the store below only bounds
//! memory. At the bound those leave that are asked for least.

use std::{sync::Arc, time::Duration};

use grip_dht::Peer;
use moka::future::Cache as Store;
use tokio::time::Instant;

use crate::{Key, Manifest, Options, Source};

/// What a resolution brought.
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
    /// None: nobody knows it.
    answer: Option<Arc<Answer>>,
    at: Instant,
}

/// What the cache says.
pub(crate) enum Look {
    Fresh(Arc<Answer>),
    /// Good enough to give, and due to be looked for anew.
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
            // Hygiene only: what nobody asks for leaves the memory.
            .time_to_live(Duration::from_secs(60 * 60))
            .build();
        Self { store }
    }

    pub async fn look(&self, key: &Key, options: &Options) -> Look {
        let Some(entry) = self.store.get(key).await else {
            return Look::Miss;
        };
        let age = entry.at.elapsed();
        match entry.answer {
            Some(answer) if age < options.hit_ttl => Look::Fresh(answer),
            Some(answer) if age < options.hit_ttl + options.stale_for => Look::Stale(answer),
            None if age < options.negative_ttl => Look::Unknown,
            _ => Look::Miss,
        }
    }

    /// What is held of a key, however old.
    pub async fn held(&self, key: &Key) -> Option<Manifest> {
        let entry = self.store.get(key).await?;
        entry.answer.map(|answer| answer.manifest.clone())
    }

    pub async fn put(&self, key: Key, answer: Option<Arc<Answer>>) {
        let at = Instant::now();
        self.store.insert(key, Entry { answer, at }).await;
    }

    pub async fn forget(&self, key: &Key) {
        self.store.invalidate(key).await;
    }

    pub fn clear(&self) {
        self.store.invalidate_all();
    }

    /// Answers held, and the memory counted for them.
    pub fn size(&self) -> (u64, u64) {
        (self.store.entry_count(), self.store.weighted_size())
    }
}

/// The encoded manifest and its parsed form, roughly.
fn weight(entry: &Entry) -> u32 {
    let bytes = match &entry.answer {
        Some(answer) => 3 * answer.manifest.bytes().len() + 512 * answer.providers.len(),
        None => 0,
    };
    u32::try_from(bytes + 1_024).unwrap_or(u32::MAX)
}
