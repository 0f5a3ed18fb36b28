//! A map with a bound.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// Keeps what was used last: at its bound the longest unused entry goes.
pub(crate) struct Lru<K, V> {
    entries: HashMap<K, Entry<V>>,
    by_use: BTreeMap<u64, K>,
    clock: u64,
    max: usize,
}

struct Entry<V> {
    value: V,
    used: u64,
}

impl<K: Eq + Hash + Clone, V> Lru<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            clock: 0,
            max: max.max(1),
        }
    }

    /// Looks without using.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        self.clock += 1;
        self.by_use.remove(&entry.used);
        self.by_use.insert(self.clock, key.clone());
        entry.used = self.clock;
        Some(&mut entry.value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        self.make_room();
        self.clock += 1;
        self.by_use.insert(self.clock, key.clone());
        let used = self.clock;
        self.entries.insert(key, Entry { value, used });
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.used);
        Some(entry.value)
    }

    /// Takes out what a new entry would push out.
    pub(crate) fn make_room(&mut self) -> Option<V> {
        let is_full = self.entries.len() >= self.max;
        is_full
            .then(|| self.pop_oldest())
            .flatten()
            .map(|(_, value)| value)
    }

    pub(crate) fn pop_oldest(&mut self) -> Option<(K, V)> {
        let (_, key) = self.by_use.pop_first()?;
        let entry = self.entries.remove(&key)?;
        Some((key, entry.value))
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_unused_goes_at_the_bound() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(lru.get(&"a"), Some(&mut 1));
        assert_eq!(lru.peek(&"b"), Some(&2));
        lru.insert("c", 3);
        assert_eq!((lru.peek(&"a"), lru.peek(&"b")), (Some(&1), None));
        assert_eq!(lru.pop_oldest(), Some(("a", 1)));
        assert_eq!(lru.remove(&"c"), Some(3));
        assert_eq!((lru.len(), lru.by_use.len()), (0, 0));
    }

    #[test]
    fn putting_a_key_again_replaces_it() {
        let mut lru = Lru::new(2);
        for n in 0..10 {
            lru.insert("a", n);
        }
        assert_eq!((lru.len(), lru.by_use.len()), (1, 1));
        assert_eq!(lru.pop_oldest(), Some(("a", 9)));
    }
}
