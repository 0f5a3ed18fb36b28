//! Deadlines of entries: the next one, and the oldest entry.

use std::collections::{BTreeMap, BTreeSet};

use grip_nostr::{EventId, RepoAddr};

use crate::Millis;

/// Names one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Event(EventId),
    Placeholder(EventId, RepoAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) added_at: Millis,
    pub(crate) deadline: Millis,
}

/// All entries in the order of their deadlines, so that a sweep costs what it removes and not what
/// it leaves; and how many came when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    events: BTreeSet<(Millis, EventId)>,
    placeholders: BTreeSet<(Millis, EventId, RepoAddr)>,
    arrivals: BTreeMap<Millis, u32>,
}

impl Schedule {
    pub(crate) fn insert(&mut self, key: Key, times: Times) {
        let at = times.deadline;
        match key {
            Key::Event(id) => self.events.insert((at, id)),
            Key::Placeholder(id, repo) => self.placeholders.insert((at, id, repo)),
        };
        *self.arrivals.entry(times.added_at).or_default() += 1;
    }

    pub(crate) fn remove(&mut self, key: Key, times: Times) {
        let at = times.deadline;
        match key {
            Key::Event(id) => self.events.remove(&(at, id)),
            Key::Placeholder(id, repo) => self.placeholders.remove(&(at, id, repo)),
        };
        if let Some(count) = self.arrivals.get_mut(&times.added_at) {
            *count -= 1;
            if *count == 0 {
                self.arrivals.remove(&times.added_at);
            }
        }
    }

    /// Takes an entry whose deadline has come out of the deadlines; the caller removes the entry or
    /// gives it a new deadline.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<Key> {
        if self.events.first().is_some_and(|(at, _)| *at <= now) {
            let (_, id) = self.events.pop_first()?;
            return Some(Key::Event(id));
        }
        if self.placeholders.first().is_some_and(|(at, ..)| *at <= now) {
            let (_, id, repo) = self.placeholders.pop_first()?;
            return Some(Key::Placeholder(id, repo));
        }
        None
    }

    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let event = self.events.first().map(|(at, _)| *at);
        let placeholder = self.placeholders.first().map(|(at, ..)| *at);
        event.into_iter().chain(placeholder).min()
    }

    /// All events, the one that ends first at the front.
    pub(crate) fn events(&self) -> impl Iterator<Item = &EventId> {
        self.events.iter().map(|(_, id)| id)
    }

    pub(crate) fn oldest(&self) -> Option<Millis> {
        self.arrivals.first_key_value().map(|(at, _)| *at)
    }
}
