//! Attempts that gave way to others and go on later.

use std::{
    collections::{BTreeSet, HashMap},
    num::NonZeroUsize,
};

use grip_types::{Identifier, Oid};
use lru::LruCache;
use url::Url;

/// Most of them, and most URLs and objects in all of them, some 40 MB. One that is forgotten
/// begins again.
const MAX_ATTEMPTS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
const MAX_PARTS: usize = 400_000;

/// What each URL was asked for.
pub(crate) type Requested = HashMap<Url, BTreeSet<Oid>>;

/// What was asked so far in attempts that go on.
pub(crate) struct PausedAttempts {
    by_identifier: LruCache<Identifier, Requested>,
    parts: usize,
}

impl Default for PausedAttempts {
    fn default() -> Self {
        Self {
            by_identifier: LruCache::new(MAX_ATTEMPTS),
            parts: 0,
        }
    }
}

impl PausedAttempts {
    pub(crate) fn put(&mut self, identifier: &Identifier, asked: Requested) {
        self.take(identifier);
        self.parts += parts(&asked);
        if let Some((_, forgotten)) = self.by_identifier.push(identifier.clone(), asked) {
            self.parts -= parts(&forgotten);
        }
        while self.parts > MAX_PARTS {
            let Some((_, forgotten)) = self.by_identifier.pop_lru() else {
                break;
            };
            self.parts -= parts(&forgotten);
        }
    }

    pub(crate) fn take(&mut self, identifier: &Identifier) -> Option<Requested> {
        let asked = self.by_identifier.pop(identifier)?;
        self.parts -= parts(&asked);
        Some(asked)
    }
}

fn parts(asked: &Requested) -> usize {
    asked.len() + asked.values().map(BTreeSet::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{identifier, oids, url};

    #[test]
    fn carried_attempts_are_bounded_by_number_and_by_what_is_in_them() {
        let mut paused = PausedAttempts::default();
        let big = oids(&(0..19_999).collect::<Vec<_>>());
        for n in 0..40 {
            let asked = Requested::from([(url("https://a.example/x"), big.clone())]);
            paused.put(&identifier("again"), asked.clone());
            paused.put(&identifier(&format!("x{n}")), asked);
            assert!(paused.parts <= MAX_PARTS);
        }
        assert!(paused.take(&identifier("x0")).is_none());
        assert!(paused.take(&identifier("x39")).is_some());
        assert_eq!(paused.parts, paused.by_identifier.len() * 20_000);
        for n in 0..2 * MAX_ATTEMPTS.get() {
            paused.put(&identifier(&format!("small{n}")), Requested::default());
        }
        assert_eq!(paused.by_identifier.len(), MAX_ATTEMPTS.get());
        assert_eq!(paused.parts, 0);
    }
}
