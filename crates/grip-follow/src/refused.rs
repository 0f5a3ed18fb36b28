//! Events that were refused: ids that are not fetched again, and answers that wait for what they
//! belong to (G02-35, G02-36).

use std::{
    collections::{HashMap, HashSet, VecDeque},
    num::NonZeroUsize,
    time::Duration,
};

use bytes::Bytes;
use grip_nostr::{Address, Event, EventId, address_of, kinds, references, values};
use lru::LruCache;
use tokio::time::Instant;

/// Ids that are remembered over all relays, 72 bytes each.
const MAX_IDS: usize = 100_000;
/// Answers that wait for what they belong to, their bytes, and those of each.
const MAX_ORPHANS: usize = 1_024;
const MAX_ORPHAN_BYTES: usize = 8 << 20;
const MAX_ORPHAN: usize = 128 << 10;
const ORPHAN_LIFETIME: Duration = Duration::from_secs(7 * 86_400);
/// Answers that one arrival may bring.
const MAX_CLOSURE: usize = 512;

/// Ids of authentic events that were refused here.
pub(crate) struct Refused {
    lifetime: Duration,
    ids: LruCache<EventId, Entry>,
}

struct Entry {
    at: Instant,
    created_at: u64,
    /// Of announcements and states, what they speak of: its arrival may change the answer.
    identifier: Option<String>,
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
        let is_of_repository = [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind);
        let identifier = values(event, "d").next().filter(|_| is_of_repository);
        let entry = Entry {
            at: now,
            created_at: event.created_at.as_secs(),
            identifier: identifier.map(str::to_owned),
        };
        self.ids.put(event.id, entry);
    }

    pub(crate) fn contains(&self, id: &EventId, now: Instant) -> bool {
        let entry = self.ids.peek(id);
        entry.is_some_and(|entry| now.saturating_duration_since(entry.at) < self.lifetime)
    }

    /// Forgets what was refused for an identifier that is here now.
    pub(crate) fn forget(&mut self, identifiers: &HashSet<&str>) {
        let is_meant = |entry: &Entry| {
            let identifier = entry.identifier.as_deref();
            identifier.is_some_and(|identifier| identifiers.contains(identifier))
        };
        let ids = self.ids.iter().filter(|(_, entry)| is_meant(entry));
        let ids: Vec<EventId> = ids.map(|(id, _)| *id).collect();
        for id in ids {
            self.ids.pop(&id);
        }
    }

    /// Time and id of refused announcements, which a reconciliation must not find missing.
    pub(crate) fn announcements(&self, now: Instant) -> Vec<(u64, [u8; 32])> {
        let valid = |entry: &Entry| now.saturating_duration_since(entry.at) < self.lifetime;
        let entries = self.ids.iter();
        let entries = entries.filter(|(_, entry)| entry.identifier.is_some() && valid(entry));
        entries
            .map(|(id, entry)| (entry.created_at, id.to_bytes()))
            .collect()
    }
}

/// Authentic events that relate to nothing here yet.
#[derive(Default)]
pub(crate) struct Orphans {
    by_id: HashMap<EventId, Orphan>,
    /// By age.
    order: VecDeque<EventId>,
    bytes: usize,
}

struct Orphan {
    text: Bytes,
    event: Event,
    at: Instant,
}

impl Orphans {
    pub(crate) fn add(&mut self, event: Event, text: Bytes, now: Instant) {
        if text.len() > MAX_ORPHAN || self.by_id.contains_key(&event.id) {
            return;
        }
        while self.by_id.len() >= MAX_ORPHANS || self.bytes + text.len() > MAX_ORPHAN_BYTES {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            self.remove(&oldest);
        }
        self.bytes += text.len();
        self.order.push_back(event.id);
        let id = event.id;
        self.by_id.insert(
            id,
            Orphan {
                text,
                event,
                at: now,
            },
        );
    }

    fn remove(&mut self, id: &EventId) -> Option<Orphan> {
        let orphan = self.by_id.remove(id)?;
        self.bytes -= orphan.text.len();
        Some(orphan)
    }

    pub(crate) fn contains(&self, id: &EventId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Takes out those that belong to one of `arrived`.
    pub(crate) fn take_children(&mut self, arrived: &[Event], now: Instant) -> Vec<(Event, Bytes)> {
        if self.by_id.is_empty() {
            return Vec::new();
        }
        self.forget_old(now);
        let ids: HashSet<EventId> = arrived.iter().map(|event| event.id).collect();
        let addresses: HashSet<Address> = arrived.iter().filter_map(address_of).collect();
        let belongs = |event: &Event| {
            let named = references(event);
            named.ids.iter().any(|id| ids.contains(id))
                || named
                    .addresses
                    .iter()
                    .any(|address| addresses.contains(address))
        };
        let found = self.by_id.values().filter(|orphan| belongs(&orphan.event));
        let found: Vec<EventId> = found
            .map(|orphan| orphan.event.id)
            .take(MAX_CLOSURE)
            .collect();
        self.order.retain(|id| !found.contains(id));
        let taken = found.iter().filter_map(|id| self.remove(id));
        taken.map(|orphan| (orphan.event, orphan.text)).collect()
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(oldest) = self.order.front().copied() {
            let age = self
                .by_id
                .get(&oldest)
                .map(|it| now.saturating_duration_since(it.at));
            if age.is_some_and(|age| age < ORPHAN_LIFETIME) {
                return;
            }
            self.order.pop_front();
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Kind, Tag};

    use super::*;

    fn event(kind: u16, content: &str, tags: &[[&str; 2]]) -> Event {
        let tags = tags.iter().map(|tag| Tag::parse(*tag).unwrap());
        EventBuilder::new(Kind::from(kind), content)
            .tags(tags)
            .finalize(&Keys::generate())
            .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn g02_35_a_refused_id_is_remembered_until_its_repository_comes() {
        let mut refused = Refused::new(Duration::from_secs(60));
        let announcement = event(30617, "", &[["d", "tides"]]);
        let comment = event(1111, "", &[]);
        refused.add(&announcement, Instant::now());
        refused.add(&comment, Instant::now());
        assert!(refused.contains(&announcement.id, Instant::now()));
        assert_eq!(refused.announcements(Instant::now()).len(), 1);
        refused.forget(&HashSet::from(["tides"]));
        assert!(!refused.contains(&announcement.id, Instant::now()));
        assert!(refused.contains(&comment.id, Instant::now()));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!refused.contains(&comment.id, Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn g02_36_answers_wait_for_their_root_within_bounds() {
        let mut orphans = Orphans::default();
        let root = event(1621, "", &[]);
        let answer = event(1111, "", &[["E", &root.id.to_hex()]]);
        orphans.add(answer.clone(), Bytes::from("x"), Instant::now());
        for n in 0..MAX_ORPHANS - 1 {
            let other = event(1111, &n.to_string(), &[]);
            orphans.add(other, Bytes::from(vec![0; 1_000]), Instant::now());
        }
        assert!(orphans.contains(&answer.id));
        let taken = orphans.take_children(std::slice::from_ref(&root), Instant::now());
        assert_eq!(taken.len(), 1);
        // Too long to be kept, and the oldest goes first.
        let long = event(1111, "long", &[]);
        orphans.add(
            long.clone(),
            Bytes::from(vec![0; MAX_ORPHAN + 1]),
            Instant::now(),
        );
        assert!(!orphans.contains(&long.id));
        orphans.add(answer.clone(), Bytes::from("x"), Instant::now());
        for n in 0..MAX_ORPHANS {
            let other = event(1111, &format!("more {n}"), &[]);
            orphans.add(other, Bytes::from("x"), Instant::now());
        }
        assert!(!orphans.contains(&answer.id));
        assert!(orphans.by_id.len() <= MAX_ORPHANS && orphans.order.len() <= MAX_ORPHANS);
    }
}
