//! Index of subscriptions by the condition that fewest events satisfy.
//!
//! Each filter stands under the values of its most selective list; an event looks under its own
//! id, author, tag values and kind. Keys are hashes: a collision only makes a candidate that the
//! filter itself then turns down.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
};

use grip_nostr::{Event, Filter};

/// The slot of an entry; the generation tells entries apart that had the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    slot: u32,
    generation: u64,
}

/// What an entry stands under: the hash of a value, or `None` for a filter without a condition.
pub(super) type Term = Option<u64>;

pub(super) struct Index<T> {
    slots: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    by_value: HashMap<u64, Bucket>,
    /// Filters with no condition to stand under.
    any: Bucket,
    next_generation: u64,
    /// Entries that wait for the end of a batch.
    settling: Vec<Key>,
    /// Newest batch that is through.
    published: u64,
    /// Number of the event under way, so that an entry is a candidate once.
    event: u64,
}

struct Entry<T> {
    generation: u64,
    seen: u64,
    value: T,
}

/// Slots under one term: nearly always few, but a stranger may make them many.
enum Bucket {
    Few(Vec<u32>),
    Many(HashSet<u32>),
}

/// Beyond this many, finding one to remove takes a set.
const FEW: usize = 64;

impl Bucket {
    fn insert(&mut self, slot: u32) {
        match self {
            Self::Few(slots) if slots.len() == FEW => {
                *self = Self::Many(slots.drain(..).chain([slot]).collect());
            }
            Self::Few(slots) => slots.push(slot),
            Self::Many(slots) => drop(slots.insert(slot)),
        }
    }

    fn remove(&mut self, slot: u32) {
        match self {
            Self::Few(slots) => slots.retain(|found| *found != slot),
            Self::Many(slots) => drop(slots.remove(&slot)),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(slots) => slots.is_empty(),
            Self::Many(slots) => slots.is_empty(),
        }
    }

    fn for_each(&self, mut each: impl FnMut(u32)) {
        match self {
            Self::Few(slots) => slots.iter().for_each(|slot| each(*slot)),
            Self::Many(slots) => slots.iter().for_each(|slot| each(*slot)),
        }
    }
}

impl Default for Bucket {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_value: HashMap::new(),
            any: Bucket::default(),
            next_generation: 0,
            settling: Vec::new(),
            published: 0,
            event: 0,
        }
    }
}

impl<T> Index<T> {
    /// Adds an entry that stands under nothing yet.
    pub(super) fn insert(&mut self, value: T) -> Key {
        self.next_generation += 1;
        let generation = self.next_generation;
        let entry = Some(Entry {
            generation,
            seen: 0,
            value,
        });
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).expect("connections are bounded far below 2^32")
            }
        };
        self.slots[slot as usize] = entry;
        Key { slot, generation }
    }

    /// Has the entry stand under `terms`, each of them given once.
    pub(super) fn add(&mut self, key: Key, terms: &[Term]) {
        for term in terms {
            let bucket = match term {
                None => &mut self.any,
                Some(hash) => self.by_value.entry(*hash).or_default(),
            };
            bucket.insert(key.slot);
        }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.slots.get_mut(key.slot as usize)?.as_mut()?;
        (entry.generation == key.generation).then_some(&mut entry.value)
    }

    /// Takes an entry out. What it stands under is to be removed by [`Index::forget`], and then its
    /// slot by [`Index::free`].
    pub(super) fn take(&mut self, key: Key) -> Option<T> {
        self.get_mut(key)?;
        let entry = self.slots[key.slot as usize].take();
        entry.map(|entry| entry.value)
    }

    pub(super) fn forget(&mut self, key: Key, terms: &[Term]) {
        for term in terms {
            let Some(hash) = term else {
                self.any.remove(key.slot);
                continue;
            };
            if let Some(slots) = self.by_value.get_mut(hash) {
                slots.remove(key.slot);
                if slots.is_empty() {
                    self.by_value.remove(hash);
                }
            }
        }
    }

    pub(super) fn free(&mut self, key: Key) {
        self.free.push(key.slot);
    }

    /// Calls `each` once with every entry that stands under a term of an event.
    pub(super) fn for_candidates(&mut self, terms: &[u64], mut each: impl FnMut(&mut T)) {
        self.event += 1;
        let number = self.event;
        let slots = &mut self.slots;
        let mut visit = |slot: u32| {
            if let Some(entry) = slots[slot as usize].as_mut()
                && entry.seen != number
            {
                entry.seen = number;
                each(&mut entry.value);
            }
        };
        self.any.for_each(&mut visit);
        for hash in terms {
            if let Some(found) = self.by_value.get(hash) {
                found.for_each(&mut visit);
            }
        }
    }

    /// Newest batch that [`Index::end_batch`] was called for.
    pub(super) fn published(&self) -> u64 {
        self.published
    }

    /// Has `key` visited when the next batches end.
    pub(super) fn settles(&mut self, key: Key) {
        self.settling.push(key);
    }

    pub(super) fn end_batch(&mut self, batch: u64, mut each: impl FnMut(&mut T)) {
        self.published = batch;
        // They wait for a batch that had begun, which is this one: batches do not overlap.
        let settling = std::mem::take(&mut self.settling);
        for key in settling {
            if let Some(value) = self.get_mut(key) {
                each(value);
            }
        }
    }
}

/// What the filters stand under, each term once.
pub(super) fn terms(hasher: &RandomState, filters: &[Filter]) -> Vec<Term> {
    let mut terms: Vec<Term> = filters
        .iter()
        .filter(|filter| !filter.matches_nothing())
        .flat_map(|filter| terms_of(hasher, filter))
        .collect();
    terms.sort_unstable();
    terms.dedup();
    terms
}

fn terms_of(hasher: &RandomState, filter: &Filter) -> Vec<Term> {
    let bytes = |label: u8, list: &[[u8; 32]]| -> Vec<Term> {
        let hash = |item| Some(hasher.hash_one((label, item)));
        list.iter().map(hash).collect()
    };
    let rarest_tag = filter.tags.iter().min_by_key(|(_, values)| values.len());
    if let Some(ids) = &filter.ids {
        bytes(b'i', ids)
    } else if let Some((letter, values)) = rarest_tag {
        let hash = |value: &String| Some(hash_tag(hasher, *letter, value));
        values.iter().map(hash).collect()
    } else if let Some(authors) = &filter.authors {
        bytes(b'p', authors)
    } else if let Some(kinds) = &filter.kinds {
        let hash = |kind: &u16| Some(hasher.hash_one((b'k', kind)));
        kinds.iter().map(hash).collect()
    } else {
        vec![None]
    }
}

fn hash_tag(hasher: &RandomState, letter: char, value: &str) -> u64 {
    hasher.hash_one((b't', letter, value))
}

/// What an event is looked for under.
pub(super) fn values_of(hasher: &RandomState, event: &Event) -> Vec<u64> {
    let head = [
        hasher.hash_one((b'i', event.id.as_bytes())),
        hasher.hash_one((b'p', event.pubkey.as_bytes())),
        hasher.hash_one((b'k', &event.kind.as_u16())),
    ];
    let tags = event.tags.iter().filter_map(|tag| {
        let mut letters = tag.kind().chars();
        let letter = letters.next().filter(char::is_ascii_alphabetic)?;
        let value = tag.content().filter(|_| letters.next().is_none())?;
        Some(hash_tag(hasher, letter, value))
    });
    head.into_iter().chain(tags).collect()
}
