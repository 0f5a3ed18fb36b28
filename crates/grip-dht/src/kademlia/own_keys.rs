//! Keys that this node provides.
//!
//! Invariant: bounded; beyond the bound the key published longest ago makes room for the next one. So
//! of more keys than may be provided at once each has its turn, and none is kept out by others. What
//! makes room is still held by the nodes that it was stored at, until it expires there.

use std::collections::{BTreeMap, HashMap};

use crate::RecordKey;

pub(super) struct OwnKeys {
    max: usize,
    next: u64,
    turns: HashMap<RecordKey, u64>,
    by_turn: BTreeMap<u64, RecordKey>,
}

impl OwnKeys {
    pub fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            next: 0,
            turns: HashMap::new(),
            by_turn: BTreeMap::new(),
        }
    }

    /// Notes that `key` is published; returns the key that made room for it, if one had to.
    pub fn publish(&mut self, key: RecordKey) -> Option<RecordKey> {
        self.remove(&key);
        let displaced = if self.turns.len() >= self.max {
            self.by_turn.pop_first().map(|(_, oldest)| oldest)
        } else {
            None
        };
        if let Some(displaced) = &displaced {
            self.turns.remove(displaced);
        }
        self.turns.insert(key.clone(), self.next);
        self.by_turn.insert(self.next, key);
        self.next += 1;
        displaced
    }

    pub fn remove(&mut self, key: &RecordKey) {
        if let Some(turn) = self.turns.remove(key) {
            self.by_turn.remove(&turn);
        }
    }

    pub fn len(&self) -> usize {
        self.turns.len()
    }

    pub fn max(&self) -> usize {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> RecordKey {
        RecordKey::from([n; 32])
    }

    #[test]
    fn beyond_the_bound_the_key_published_longest_ago_makes_room() {
        let mut own = OwnKeys::new(2);
        assert_eq!(own.publish(key(1)), None);
        assert_eq!(own.publish(key(2)), None);
        assert_eq!(
            own.publish(key(1)),
            None,
            "published again, it is the newest"
        );
        assert_eq!(own.publish(key(3)), Some(key(2)));
        assert_eq!(own.publish(key(4)), Some(key(1)));
        own.remove(&key(3));
        assert_eq!((own.publish(key(5)), own.len()), (None, 2));
    }

    #[test]
    fn of_many_keys_each_has_the_same_part_of_the_time() {
        let mut own = OwnKeys::new(10);
        let mut displaced = [0_u32; 25];
        for round in 0..4 {
            for n in 0..25 {
                let gone = own.publish(key(n));
                if let Some(gone) = gone {
                    displaced[usize::from(gone.as_bytes()[0])] += 1;
                }
                assert!(own.len() <= 10, "{round}");
            }
        }
        assert!(displaced.iter().all(|times| (3..=4).contains(times)));
    }
}
