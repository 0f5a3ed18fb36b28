//! A cache bounded by weight.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// Keeps what was used last; at its bound the longest unused entries go.
///
/// An entry heavier than the whole bound is not kept at all.
pub(crate) struct Lru<K, V> {
    entries: HashMap<K, Entry<V>>,
    by_use: BTreeMap<u64, K>,
    clock: u64,
    weight: usize,
    max_weight: usize,
}

struct Entry<V> {
    value: V,
    used: u64,
    weight: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Lru<K, V> {
    pub(crate) fn new(max_weight: usize) -> Self {
        Self {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            weight: 0,
            max_weight,
        }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        self.by_use.remove(&entry.used);
        entry.used = self.clock;
        self.by_use.insert(self.clock, key.clone());
        Some(entry.value.clone())
    }

    pub(crate) fn insert(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        if weight > self.max_weight {
            return;
        }
        self.clock += 1;
        self.weight += weight;
        self.by_use.insert(self.clock, key.clone());
        let used = self.clock;
        let entry = Entry {
            value,
            used,
            weight,
        };
        self.entries.insert(key, entry);
        while self.weight > self.max_weight {
            let Some((_, oldest)) = self.by_use.pop_first() else {
                break;
            };
            self.remove(&oldest);
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_use.remove(&entry.used);
            self.weight -= entry.weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_go_first() {
        let mut lru = Lru::new(10);
        lru.insert("a", 1, 4);
        lru.insert("b", 2, 4);
        assert_eq!(lru.get(&"a"), Some(1));
        lru.insert("c", 3, 4);
        assert_eq!(
            (lru.get(&"a"), lru.get(&"b"), lru.get(&"c")),
            (Some(1), None, Some(3))
        );
    }

    #[test]
    fn weights_of_replaced_and_refused_entries_are_given_back() {
        let mut lru = Lru::new(10);
        for _ in 0..100 {
            lru.insert("a", 1, 9);
        }
        lru.insert("huge", 2, 11);
        assert_eq!((lru.get(&"a"), lru.get(&"huge")), (Some(1), None));
        lru.remove(&"a");
        assert_eq!((lru.weight, lru.by_use.len()), (0, 0));
    }
}
