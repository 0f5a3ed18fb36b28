//! A memory of what was used last, bounded by its bytes.
//!
//! Strangers choose how long URLs are and how many objects they name: a bound on the number of
//! entries alone is none on memory.

use std::{borrow::Borrow, hash::Hash};

use lru::LruCache;

/// What an entry takes beside its value.
const OVERHEAD: usize = 64;

/// Keys and values up to a number of bytes; what was used longest ago is forgotten first.
pub struct ByteLru<K: Hash + Eq, V> {
    entries: LruCache<K, (V, usize)>,
    bytes: usize,
    max_bytes: usize,
    weigh: fn(&K, &V) -> usize,
}

impl<K: Hash + Eq, V> ByteLru<K, V> {
    /// `weigh` says what a key and its value take on the heap.
    pub fn new(max_bytes: usize, weigh: fn(&K, &V) -> usize) -> Self {
        Self {
            entries: LruCache::unbounded(),
            bytes: 0,
            max_bytes,
            weigh,
        }
    }

    /// Puts a value in and forgets what was used longest ago if that is too much.
    pub fn put(&mut self, key: K, value: V) -> Option<V> {
        let weight = self.weight(&key, &value);
        let before = self.entries.push(key, (value, weight));
        self.bytes += weight;
        let before = before.map(|(_, (value, weight))| {
            self.bytes -= weight;
            value
        });
        self.shrink();
        before
    }

    pub fn get<Q>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.get(key).map(|(value, _)| value)
    }

    pub fn peek<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.peek(key).map(|(value, _)| value)
    }

    /// A value to change, which is weighed again by [`ByteLru::reweigh`].
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.get_mut(key).map(|(value, _)| value)
    }

    pub fn reweigh<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        if let Some((key, (value, weight))) = self.entries.pop_entry(key) {
            self.bytes -= weight;
            self.put(key, value);
        }
    }

    pub fn pop<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (value, weight) = self.entries.pop(key)?;
        self.bytes -= weight;
        Some(value)
    }

    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.contains(key)
    }

    fn weight(&self, key: &K, value: &V) -> usize {
        (self.weigh)(key, value) + size_of::<(K, V)>() + OVERHEAD
    }

    fn shrink(&mut self) {
        while self.bytes > self.max_bytes {
            let Some((_, (_, weight))) = self.entries.pop_lru() else {
                return;
            };
            self.bytes -= weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> ByteLru<u32, String> {
        let own = size_of::<(u32, String)>() + OVERHEAD;
        ByteLru::new(1_000 + 3 * own, |_, value| value.len())
    }

    fn text(len: usize) -> String {
        "x".repeat(len)
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten_for_its_bytes() {
        let mut memory = memory();
        for key in 0..3 {
            memory.put(key, text(300));
        }
        assert!(memory.get(&0).is_some());
        memory.put(3, text(500));
        let here = |key: u32| memory.contains(&key);
        assert_eq!([0, 1, 2, 3].map(here), [true, false, false, true]);
    }

    #[test]
    fn a_value_that_grew_is_weighed_again() {
        let mut memory = memory();
        memory.put(0, text(10));
        memory.put(1, text(10));
        memory.get_mut(&1).unwrap().push_str(&text(985));
        memory.reweigh(&1);
        assert!(!memory.contains(&0) || memory.bytes <= memory.max_bytes);
        assert_eq!(memory.peek(&1).map(String::len), Some(995));
    }

    #[test]
    fn nothing_is_counted_that_is_not_there() {
        let mut memory = memory();
        assert_eq!(memory.put(0, text(10)), None);
        assert_eq!(memory.put(0, text(20)), Some(text(10)));
        assert_eq!(memory.pop(&0), Some(text(20)));
        assert_eq!((memory.pop(&0), memory.bytes), (None, 0));
        memory.put(1, text(100_000));
        assert_eq!((memory.contains(&1), memory.bytes), (false, 0));
    }
}
