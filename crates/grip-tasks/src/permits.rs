//! Permits counted by key.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;

/// How many permits are held for each key. Cheap to clone; clones share the counts.
///
/// A key is in memory only while a permit for it is held.
pub struct Permits<K> {
    held: Arc<Mutex<HashMap<K, usize>>>,
}

/// One permit for a key; dropping it frees it.
#[must_use = "dropping the permit frees it"]
pub struct Permit<K: Eq + Hash> {
    permits: Permits<K>,
    key: K,
}

impl<K> Clone for Permits<K> {
    fn clone(&self) -> Self {
        Self {
            held: Arc::clone(&self.held),
        }
    }
}

impl<K> Default for Permits<K> {
    fn default() -> Self {
        Self {
            held: Arc::default(),
        }
    }
}

impl<K: Eq + Hash + Clone> Permits<K> {
    pub fn new() -> Self {
        Self::default()
    }

    /// A permit, however many are held.
    pub fn take(&self, key: &K) -> Permit<K> {
        let permit = self.try_take(key, usize::MAX);
        permit.expect("because memory holds fewer permits than that")
    }

    /// A permit unless `max` are held: asking and taking is one step.
    pub fn try_take(&self, key: &K, max: usize) -> Option<Permit<K>> {
        let mut held = self.held.lock();
        let count = held.get(key).copied().unwrap_or_default();
        if count >= max {
            return None;
        }
        held.insert(key.clone(), count + 1);
        Some(Permit {
            permits: self.clone(),
            key: key.clone(),
        })
    }

    /// How many permits are held in all.
    pub fn total(&self) -> usize {
        self.held.lock().values().sum()
    }

    /// How many permits for `key` are held.
    pub fn held(&self, key: &K) -> usize {
        self.held.lock().get(key).copied().unwrap_or_default()
    }
}

impl<K: Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut held = self.permits.held.lock();
        if let Some(count) = held.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_frees_itself_and_the_last_one_its_key() {
        let permits = Permits::new();
        let first = permits.try_take(&"a", 1);
        assert!(first.is_some() && permits.try_take(&"a", 1).is_none());
        let others = (permits.take(&"a"), permits.take(&"b"));
        assert_eq!((permits.held(&"a"), permits.held(&"b")), (2, 1));
        drop((first, others));
        assert_eq!(permits.held(&"a"), 0);
        assert!(permits.held.lock().is_empty());
    }
}
