//! Recent attempts of each identifier, for those who ask why it still waits.

use std::{collections::VecDeque, num::NonZeroUsize};

use grip_purgatory::UrlAttempt;
use grip_types::Identifier;
use lru::LruCache;

/// Most identifiers remembered; the longest unchanged goes first.
const MAX_IDENTIFIERS: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// Most tries remembered of one identifier; the oldest goes first.
const MAX_PER_IDENTIFIER: usize = 32;
/// Identifiers among which the newest are looked for.
const MAX_SHOWN: usize = 200;
/// Bytes of all tries that are remembered.
const MAX_BYTES: usize = 40 << 20;

pub(crate) struct RecentAttempts {
    by_identifier: LruCache<Identifier, VecDeque<UrlAttempt>>,
    bytes: usize,
    max: usize,
}

impl Default for RecentAttempts {
    fn default() -> Self {
        Self {
            by_identifier: LruCache::new(MAX_IDENTIFIERS),
            bytes: 0,
            max: MAX_BYTES,
        }
    }
}

impl RecentAttempts {
    pub(crate) fn add(&mut self, attempt: UrlAttempt) {
        let identifier = attempt.identifier.clone();
        let mut tries = self.by_identifier.pop(&identifier).unwrap_or_default();
        if tries.len() == MAX_PER_IDENTIFIER {
            let oldest = tries.pop_front();
            self.bytes -= weigh(&oldest);
        }
        self.bytes += weigh(&Some(attempt.clone()));
        tries.push_back(attempt);
        if let Some((_, forgotten)) = self.by_identifier.push(identifier, tries) {
            self.bytes -= weigh(&forgotten);
        }
        while self.bytes > self.max {
            let Some((_, forgotten)) = self.by_identifier.pop_lru() else {
                break;
            };
            self.bytes -= weigh(&forgotten);
        }
    }

    /// The attempts for an identifier, newest first.
    pub(crate) fn of(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        let attempts = self.by_identifier.peek(identifier).into_iter().flatten();
        attempts.rev().cloned().collect()
    }

    /// The attempts for those identifiers that were tried last, newest first.
    pub(crate) fn newest(&self, limit: usize) -> Vec<UrlAttempt> {
        let tried_last = self.by_identifier.iter().take(MAX_SHOWN);
        let mut newest: Vec<&UrlAttempt> = tried_last.flat_map(|(_, it)| it.iter().rev()).collect();
        newest.sort_by_key(|attempt| std::cmp::Reverse(attempt.at));
        newest.into_iter().take(limit).cloned().collect()
    }
}

fn weigh<'a>(attempts: impl IntoIterator<Item = &'a UrlAttempt>) -> usize {
    let text = |attempt: &UrlAttempt| {
        let identifier = attempt.identifier.as_str().len();
        identifier + attempt.url.len() + attempt.outcome.len() + attempt.next_step.len()
    };
    let attempts = attempts.into_iter();
    attempts.map(|it| size_of::<UrlAttempt>() + text(it)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::identifier;

    fn tried(name: &str, at: i64) -> UrlAttempt {
        UrlAttempt {
            identifier: identifier(name),
            next_step: String::new(),
            is_success: true,
            url: "https://a.example/x.git".to_owned(),
            at,
            outcome: "fetched".to_owned(),
            oids_fetched: 1,
            duration_ms: 5,
        }
    }

    #[test]
    fn the_newest_tries_of_an_identifier_are_kept() {
        let mut tries = RecentAttempts::default();
        for at in 0..100 {
            tries.add(tried("x", at));
        }
        let kept: Vec<_> = tries.of(&identifier("x")).iter().map(|t| t.at).collect();
        assert_eq!(kept, (68..100).rev().collect::<Vec<_>>());
        let all = tries.of(&identifier("x"));
        assert_eq!((all.len(), tries.bytes), (MAX_PER_IDENTIFIER, weigh(&all)));
        assert!(tries.of(&identifier("y")).is_empty());
    }

    #[test]
    fn the_newest_of_all_come_first() {
        let mut tries = RecentAttempts::default();
        for (name, at) in [("x", 1), ("y", 2), ("z", 3), ("x", 4)] {
            tries.add(tried(name, at));
        }
        let newest = |limit| -> Vec<i64> { tries.newest(limit).iter().map(|t| t.at).collect() };
        assert_eq!((newest(3), newest(9)), (vec![4, 3, 2], vec![4, 3, 2, 1]));
        for n in 0..1000 {
            tries.add(tried(&format!("n{n}"), n));
        }
        assert_eq!(tries.newest(usize::MAX).len(), MAX_SHOWN);
    }

    #[test]
    fn neither_identifiers_nor_tries_go_beyond_their_bounds() {
        let mut tries = RecentAttempts {
            by_identifier: LruCache::new(NonZeroUsize::new(10).unwrap()),
            bytes: 0,
            max: 25 * weigh(&[tried("x00", 0)]),
        };
        for n in 0..40 {
            tries.add(tried(&format!("x{n}"), n));
            let all: Vec<_> = tries.newest(usize::MAX);
            assert!(tries.by_identifier.len() <= 10 && tries.bytes == weigh(&all));
        }
        for n in 0..30 {
            tries.add(tried("busy", n));
            tries.add(tried("other", n));
            assert!(tries.bytes <= tries.max);
        }
        assert!(!tries.of(&identifier("other")).is_empty());
    }
}
