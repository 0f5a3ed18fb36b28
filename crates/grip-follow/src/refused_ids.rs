//! Ids of events that were refused, so that they are not fetched again (G02-35).

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    num::NonZeroUsize,
    time::Duration,
};

use grip_nostr::{Event, EventId, Filter, kinds};
use lru::LruCache;
use tokio::time::Instant;

/// Ids that are remembered over all relays, some 200 bytes each.
const MAX_IDS: usize = 100_000;
/// Tags of one event by which it is found again.
const MAX_TAGS: usize = 12;
/// The tags that relays are asked by.
const LETTERS: [&str; 6] = ["d", "a", "A", "e", "E", "q"];

/// Ids of authentic events that were refused here.
pub(crate) struct Refused {
    lifetime: Duration,
    ids: LruCache<EventId, Entry>,
}

struct Entry {
    at: Instant,
    created_at: u64,
    kind: u16,
    /// Stand for letter and value of its tags.
    tags: Box<[u64]>,
}

impl Refused {
    pub(crate) fn new(lifetime: Duration) -> Self {
        let most = NonZeroUsize::new(MAX_IDS).expect("not zero");
        Self {
            lifetime,
            ids: LruCache::new(most),
        }
    }

    /// Remembers an event whose signature was checked.
    pub(crate) fn add(&mut self, event: &Event, now: Instant) {
        let tags = event.tags.iter().filter_map(|tag| {
            let letter = LETTERS.into_iter().find(|letter| *letter == tag.kind())?;
            Some(digest(letter, tag.content()?))
        });
        let entry = Entry {
            at: now,
            created_at: event.created_at.as_secs(),
            kind: event.kind.as_u16(),
            tags: tags.take(MAX_TAGS).collect(),
        };
        self.ids.put(event.id, entry);
    }

    pub(crate) fn contains(&self, id: &EventId, now: Instant) -> bool {
        let entry = self.ids.peek(id);
        entry.is_some_and(|entry| self.counts(entry, now))
    }

    fn counts(&self, entry: &Entry, now: Instant) -> bool {
        now.saturating_duration_since(entry.at) < self.lifetime
    }

    /// Forgets announcements and states that were refused for identifiers that are here now, or
    /// have other maintainers now.
    pub(crate) fn forget(&mut self, identifiers: &HashSet<&str>) {
        let digests: HashSet<u64> = identifiers.iter().map(|it| digest("d", it)).collect();
        let is_meant = |entry: &Entry| {
            let is_of_repository = [kinds::ANNOUNCEMENT, kinds::STATE]
                .into_iter()
                .any(|kind| kind.as_u16() == entry.kind);
            is_of_repository && entry.tags.iter().any(|tag| digests.contains(tag))
        };
        let ids = self.ids.iter().filter(|(_, entry)| is_meant(entry));
        let ids: Vec<EventId> = ids.map(|(id, _)| *id).collect();
        for id in ids {
            self.ids.pop(&id);
        }
    }

    /// Time and id of what matches, which a reconciliation must not find missing (G02-23).
    pub(crate) fn items(&self, filter: &Filter, now: Instant) -> Vec<(u64, [u8; 32])> {
        if filter.authors.is_some() || filter.ids.is_some() {
            return Vec::new();
        }
        let wanted: Vec<HashSet<u64>> = filter
            .tags
            .iter()
            .map(|(letter, values)| {
                let letter = letter.to_string();
                values.iter().map(|value| digest(&letter, value)).collect()
            })
            .collect();
        let is_meant = |entry: &Entry| {
            let kinds = filter.kinds.as_ref();
            kinds.is_none_or(|kinds| kinds.contains(&entry.kind))
                && filter.since.is_none_or(|since| entry.created_at >= since)
                && filter.until.is_none_or(|until| entry.created_at <= until)
                && wanted
                    .iter()
                    .all(|wanted| entry.tags.iter().any(|tag| wanted.contains(tag)))
        };
        let entries = self.ids.iter();
        let entries = entries.filter(|(_, entry)| self.counts(entry, now) && is_meant(entry));
        entries
            .map(|(id, entry)| (entry.created_at, id.to_bytes()))
            .collect()
    }
}

fn digest(letter: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (letter, value).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::event;

    fn filter(letter: char, value: &str) -> Filter {
        Filter {
            tags: BTreeMap::from([(letter, vec![value.to_owned()])]),
            ..Filter::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn g02_35_a_refused_id_is_remembered_until_its_repository_comes() {
        let mut refused = Refused::new(Duration::from_secs(60));
        let announcement = event(30617, "", &[["d", "tides"]]);
        let comment = event(1111, "", &[["d", "tides"]]);
        refused.add(&announcement, Instant::now());
        refused.add(&comment, Instant::now());
        assert!(refused.contains(&announcement.id, Instant::now()));
        refused.forget(&HashSet::from(["tides"]));
        assert!(!refused.contains(&announcement.id, Instant::now()));
        assert!(refused.contains(&comment.id, Instant::now()));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!refused.contains(&comment.id, Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn g02_23_what_was_refused_is_part_of_the_set_that_is_compared() {
        let mut refused = Refused::new(Duration::from_secs(60));
        let state = event(30618, "", &[["d", "tides"]]);
        let comment = event(1111, "", &[["E", "ab"], ["p", "x"]]);
        refused.add(&state, Instant::now());
        refused.add(&comment, Instant::now());
        let found = |filter: &Filter| -> Vec<[u8; 32]> {
            let items = refused.items(filter, Instant::now());
            items.into_iter().map(|(_, id)| id).collect()
        };
        assert_eq!(found(&filter('d', "tides")), [state.id.to_bytes()]);
        assert_eq!(found(&filter('E', "ab")), [comment.id.to_bytes()]);
        assert!(found(&filter('e', "ab")).is_empty());
        let states = Filter {
            kinds: Some(vec![30618]),
            ..Filter::default()
        };
        assert_eq!(found(&states), [state.id.to_bytes()]);
        let later = Filter {
            since: Some(u64::MAX),
            ..states
        };
        assert!(found(&later).is_empty());
    }
}
