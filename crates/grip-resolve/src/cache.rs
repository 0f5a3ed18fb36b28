//! What was resolved a moment ago.
//!
//! Invariants:
//! - Ages are measured here, on the same clock as deadlines; the store below only bounds memory. At
//!   the bound those leave that are asked for least.
//! - What is known of a name only gets newer, unless it is forgotten.
//! - What was read before a key was forgotten is not kept after.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

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
pub(crate) enum CacheLookup {
    Fresh(Arc<Answer>),
    /// Good enough to give, and due to be looked for again.
    Stale(Arc<Answer>),
    Unknown,
    Miss,
}

/// Forgettings are counted in so many places; keys of one place are forgotten together as far as
/// answers are concerned that are looked for at that moment.
const PLACES: usize = 1_024;

pub(crate) struct Cache {
    store: Store<Key, Entry>,
    places: RandomState,
    forgotten: [AtomicU64; PLACES],
}

/// When something was begun to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Generation(u64);

impl Cache {
    pub fn new(bytes: u64) -> Self {
        let store = Store::builder()
            .max_capacity(bytes)
            .weigher(|_, entry: &Entry| weight(entry))
            // Hygiene only: what nobody asks for leaves the memory.
            .time_to_live(Duration::from_secs(60 * 60))
            .build();
        Self {
            store,
            places: RandomState::new(),
            forgotten: [const { AtomicU64::new(0) }; PLACES],
        }
    }

    /// This moment, as far as `key` is concerned.
    pub fn generation(&self, key: &Key) -> Generation {
        Generation(self.place(key).load(SeqCst))
    }

    fn place(&self, key: &Key) -> &AtomicU64 {
        let hash = self.places.hash_one(key);
        &self.forgotten[(hash % PLACES as u64) as usize]
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

    /// What is held of a key, however old.
    pub async fn held(&self, key: &Key) -> Option<Manifest> {
        let entry = self.store.get(key).await?;
        entry.answer.map(|answer| answer.manifest.clone())
    }

    /// Keeps what was found, joined with what is held, and says what that comes to.
    ///
    /// It is not kept if the key was forgotten since its reading began.
    pub async fn put(&self, key: &Key, found: Arc<Answer>, since: Generation) -> Arc<Answer> {
        if self.generation(key) != since {
            return found;
        }
        let mut joint = Arc::clone(&found);
        let join = |held: Option<moka::Entry<Key, Entry>>| {
            let held = held.and_then(|held| held.into_value().answer);
            if let Some(held) = held {
                joint = newest(&found, &held);
            }
            std::future::ready(Entry::new(Some(Arc::clone(&joint))))
        };
        self.store.entry_by_ref(key).and_upsert_with(join).await;
        self.check(key, since).await;
        joint
    }

    /// Keeps that nobody knows it.
    pub async fn put_unknown(&self, key: &Key, since: Generation) {
        if self.generation(key) == since {
            self.store.insert(key.clone(), Entry::new(None)).await;
            self.check(key, since).await;
        }
    }

    /// Whoever forgets counts first, so either he has removed what was just put in, or it is
    /// removed here.
    async fn check(&self, key: &Key, since: Generation) {
        if self.generation(key) != since {
            self.store.invalidate(key).await;
        }
    }

    pub async fn forget(&self, key: &Key) {
        self.place(key).fetch_add(1, SeqCst);
        self.store.invalidate(key).await;
    }

    pub fn clear(&self) {
        for place in &self.forgotten {
            place.fetch_add(1, SeqCst);
        }
        self.store.invalidate_all();
    }

    /// Answers held, and the memory counted for them.
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

/// What was found, with what was known before if that is newer.
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
