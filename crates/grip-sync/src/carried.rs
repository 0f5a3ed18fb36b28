//! Attempts that were cut short and go on.

use std::{
    collections::{BTreeSet, HashMap},
    num::NonZeroUsize,
};

use grip_types::{Identifier, Oid};
use lru::LruCache;
use url::Url;

/// Most of them, and most URLs and objects in all of them, some 40 MB. One that is forgotten
/// begins anew.
const MAX_ATTEMPTS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
const MAX_PARTS: usize = 400_000;

/// What each URL was asked for.
pub(crate) type Asked = HashMap<Url, BTreeSet<Oid>>;

/// What was asked so far in attempts that go on.
pub(crate) struct Carried {
    by_identifier: LruCache<Identifier, Asked>,
    parts: usize,
}

impl Default for Carried {
    fn default() -> Self {
        Self {
            by_identifier: LruCache::new(MAX_ATTEMPTS),
            parts: 0,
        }
    }
}

impl Carried {
    pub(crate) fn put(&mut self, identifier: &Identifier, asked: Asked) {
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

    pub(crate) fn take(&mut self, identifier: &Identifier) -> Option<Asked> {
        let asked = self.by_identifier.pop(identifier)?;
        self.parts -= parts(&asked);
        Some(asked)
    }
}

fn parts(asked: &Asked) -> usize {
    asked.len() + asked.values().map(BTreeSet::len).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{identifier, oids, url};

    #[test]
    fn carried_attempts_are_bounded_by_number_and_by_what_is_in_them() {
        let mut carried = Carried::default();
        let big = oids(&(0..19_999).collect::<Vec<_>>());
        for n in 0..40 {
            let asked = Asked::from([(url("https://a.example/x"), big.clone())]);
            carried.put(&identifier("again"), asked.clone());
            carried.put(&identifier(&format!("x{n}")), asked);
            assert!(carried.parts <= MAX_PARTS);
        }
        assert!(carried.take(&identifier("x0")).is_none());
        assert!(carried.take(&identifier("x39")).is_some());
        assert_eq!(carried.parts, carried.by_identifier.len() * 20_000);
        for n in 0..2 * MAX_ATTEMPTS.get() {
            carried.put(&identifier(&format!("small{n}")), Asked::default());
        }
        assert_eq!(carried.by_identifier.len(), MAX_ATTEMPTS.get());
        assert_eq!(carried.parts, 0);
    }
}
