//! What was tried for each identifier, for those who ask why it still waits.

use std::{collections::VecDeque, num::NonZeroUsize};

use grip_types::Identifier;
use lru::LruCache;
use serde::Serialize;

/// Most identifiers remembered; the longest unchanged goes first.
const MAX_IDENTIFIERS: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// Most tries remembered of one identifier; the oldest goes first.
const MAX_PER_IDENTIFIER: usize = 32;
/// Most tries remembered in all, some 40 MB.
const MAX_IN_ALL: usize = 100_000;

/// One URL asked once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// Without user name, password and query.
    pub url: String,
    /// Milliseconds since 1970.
    pub at: i64,
    pub outcome: String,
    pub oids_fetched: usize,
    pub duration_ms: u64,
}

pub(crate) struct Tries {
    by_identifier: LruCache<Identifier, VecDeque<Tried>>,
    count: usize,
    max: usize,
}

impl Default for Tries {
    fn default() -> Self {
        Self {
            by_identifier: LruCache::new(MAX_IDENTIFIERS),
            count: 0,
            max: MAX_IN_ALL,
        }
    }
}

impl Tries {
    pub(crate) fn add(&mut self, identifier: &Identifier, tried: Tried) {
        let mut tries = self.by_identifier.pop(identifier).unwrap_or_default();
        if tries.len() == MAX_PER_IDENTIFIER {
            tries.pop_front();
            self.count -= 1;
        }
        tries.push_back(tried);
        self.count += 1;
        if let Some((_, forgotten)) = self.by_identifier.push(identifier.clone(), tries) {
            self.count -= forgotten.len();
        }
        while self.count > self.max {
            let Some((_, forgotten)) = self.by_identifier.pop_lru() else {
                break;
            };
            self.count -= forgotten.len();
        }
    }

    /// The newest tries, oldest first.
    pub(crate) fn of(&self, identifier: &Identifier) -> Vec<Tried> {
        let tries = self.by_identifier.peek(identifier);
        tries
            .map(|tries| tries.iter().cloned().collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::identifier;

    fn tried(at: i64) -> Tried {
        Tried {
            url: "https://a.example/x.git".to_owned(),
            at,
            outcome: "fetched".to_owned(),
            oids_fetched: 1,
            duration_ms: 5,
        }
    }

    #[test]
    fn the_newest_tries_of_an_identifier_are_kept() {
        let mut tries = Tries::default();
        for at in 0..100 {
            tries.add(&identifier("x"), tried(at));
        }
        let kept: Vec<_> = tries.of(&identifier("x")).iter().map(|t| t.at).collect();
        assert_eq!(kept, (68..100).collect::<Vec<_>>());
        assert_eq!(tries.count, MAX_PER_IDENTIFIER);
        assert!(tries.of(&identifier("y")).is_empty());
    }

    #[test]
    fn neither_identifiers_nor_tries_go_beyond_their_bounds() {
        let mut tries = Tries {
            by_identifier: LruCache::new(NonZeroUsize::new(10).unwrap()),
            count: 0,
            max: 25,
        };
        for n in 0..40 {
            tries.add(&identifier(&format!("x{n}")), tried(n));
            assert!(tries.by_identifier.len() <= 10 && tries.count == tries.by_identifier.len());
        }
        for n in 0..30 {
            tries.add(&identifier("busy"), tried(n));
            tries.add(&identifier("other"), tried(n));
            assert!(tries.count <= 25);
        }
        assert!(!tries.of(&identifier("other")).is_empty());
    }
}
