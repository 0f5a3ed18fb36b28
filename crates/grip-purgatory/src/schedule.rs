//! Which entry is due next, and which is the oldest.

use std::collections::BTreeSet;

use grip_nostr::{EventId, RepoAddr};
use grip_types::Identifier;

use crate::Millis;

/// Names one entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Announcement(RepoAddr),
    State(Identifier, EventId),
    Pr(EventId),
    Placeholder(EventId, RepoAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) added_at: Millis,
    pub(crate) deadline: Millis,
}

/// All entries in the order of their deadlines and of their arrival, so that a sweep costs what
/// it removes and not what it leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    deadlines: BTreeSet<(Millis, Key)>,
    arrivals: BTreeSet<(Millis, Key)>,
}

impl Schedule {
    pub(crate) fn insert(&mut self, key: Key, times: Times) {
        self.deadlines.insert((times.deadline, key.clone()));
        self.arrivals.insert((times.added_at, key));
    }

    pub(crate) fn remove(&mut self, key: Key, times: Times) {
        let in_deadlines = (times.deadline, key);
        self.deadlines.remove(&in_deadlines);
        self.arrivals.remove(&(times.added_at, in_deadlines.1));
    }

    /// Takes an entry whose deadline has come out of the deadlines; whoever removes the entry or
    /// gives it a new deadline does the rest.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<Key> {
        let due = self.deadlines.first().is_some_and(|(at, _)| *at <= now);
        let (_, key) = due.then(|| self.deadlines.pop_first())??;
        Some(key)
    }

    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// All entries, the one that ends first at the front.
    pub(crate) fn by_deadline(&self) -> impl Iterator<Item = &Key> {
        self.deadlines.iter().map(|(_, key)| key)
    }

    pub(crate) fn oldest(&self) -> Option<Millis> {
        self.arrivals.first().map(|(added_at, _)| *added_at)
    }
}
