//! Index of subscriptions by the condition that fewest events satisfy.
//!
//! Each filter stands under the values of its most selective list; an event looks under its own
//! id, author, tag values and kind. Keys are hashes: a collision only makes a candidate that the
//! filter itself then turns down.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use grip_nostr::{Event, Filter};

/// The slot of an entry; the generation tells entries apart that had the same slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    slot: u32,
    generation: u64,
}

pub(super) struct Index<T> {
    slots: Vec<Option<Entry<T>>>,
    free: Vec<u32>,
    by_value: HashMap<u64, Vec<u32>>,
    /// Filters with no condition to stand under.
    any: Vec<u32>,
    hasher: RandomState,
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

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            by_value: HashMap::new(),
            any: Vec::new(),
            hasher: RandomState::new(),
            next_generation: 0,
            settling: Vec::new(),
            published: 0,
            event: 0,
        }
    }
}

impl<T> Index<T> {
    pub(super) fn insert(&mut self, value: T, filters: &[Filter]) -> Key {
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
        for term in terms(&self.hasher, filters) {
            match term {
                None => self.any.push(slot),
                Some(hash) => self.by_value.entry(hash).or_default().push(slot),
            }
        }
        Key { slot, generation }
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.slots.get_mut(key.slot as usize)?.as_mut()?;
        (entry.generation == key.generation).then_some(&mut entry.value)
    }

    /// `filters` must be those the entry was inserted with.
    pub(super) fn remove(&mut self, key: Key, filters: &[Filter]) -> Option<T> {
        self.get_mut(key)?;
        for term in terms(&self.hasher, filters) {
            match term {
                None => take_out(&mut self.any, key.slot),
                Some(hash) => {
                    if let Some(slots) = self.by_value.get_mut(&hash) {
                        take_out(slots, key.slot);
                        if slots.is_empty() {
                            self.by_value.remove(&hash);
                        }
                    }
                }
            }
        }
        self.free.push(key.slot);
        self.slots[key.slot as usize]
            .take()
            .map(|entry| entry.value)
    }

    /// Calls `each` once with every entry that `event` may concern.
    pub(super) fn for_candidates(&mut self, event: &Event, mut each: impl FnMut(&mut T)) {
        self.event += 1;
        let number = self.event;
        let slots = &mut self.slots;
        let mut visit = |found: &[u32]| {
            for slot in found {
                let Some(entry) = slots[*slot as usize].as_mut() else {
                    continue;
                };
                if entry.seen != number {
                    entry.seen = number;
                    each(&mut entry.value);
                }
            }
        };
        visit(&self.any);
        for hash in values_of(&self.hasher, event) {
            if let Some(found) = self.by_value.get(&hash) {
                visit(found);
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

/// The hashes that the filters are indexed under, `None` for a filter without a condition; the same
/// for the same filters.
fn terms(hasher: &RandomState, filters: &[Filter]) -> impl Iterator<Item = Option<u64>> {
    filters
        .iter()
        .filter(|filter| !filter.matches_nothing())
        .flat_map(|filter| terms_of(hasher, filter))
}

fn terms_of(hasher: &RandomState, filter: &Filter) -> Vec<Option<u64>> {
    let bytes = |label: u8, list: &[[u8; 32]]| -> Vec<Option<u64>> {
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

fn values_of<'a>(hasher: &'a RandomState, event: &'a Event) -> impl Iterator<Item = u64> + 'a {
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
    head.into_iter().chain(tags)
}

fn take_out(slots: &mut Vec<u32>, slot: u32) {
    if let Some(at) = slots.iter().position(|found| *found == slot) {
        slots.swap_remove(at);
    }
}
