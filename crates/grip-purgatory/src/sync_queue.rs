//! When data for an identifier is looked for elsewhere.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use grip_types::Identifier;

use crate::{Change, Millis};

/// The search for the data of one identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEntry {
    pub next_attempt: Millis,
    /// Attempts that did not bring everything, since the last new event.
    pub attempt_count: u32,
    /// An attempt is under way; the next one waits for its end.
    pub in_progress: bool,
    /// A new event came during the attempt under way and has set `next_attempt`.
    pub(crate) renewed: bool,
}

/// Bounded by what is held: an identifier for which nothing waits leaves the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyncQueue {
    entries: HashMap<Identifier, SyncEntry>,
    /// Those not in progress, in the order in which they are due.
    due: BTreeSet<(Millis, Identifier)>,
}

impl SyncQueue {
    pub(crate) fn get(&self, identifier: &Identifier) -> Option<&SyncEntry> {
        self.entries.get(identifier)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn identifiers(&self) -> impl Iterator<Item = &Identifier> {
        self.entries.keys()
    }

    pub(crate) fn next(&self) -> Option<(Millis, &Identifier)> {
        self.due.first().map(|(at, identifier)| (*at, identifier))
    }

    /// A new event resets the count and may only bring the attempt forward.
    pub(crate) fn enqueue(
        &mut self,
        identifier: &Identifier,
        delay: Duration,
        now: Millis,
    ) -> Vec<Change> {
        let wanted = now + delay;
        let before = self.get(identifier).copied();
        let entry = match before {
            // The time of the attempt under way is spent: it cannot serve the new event.
            Some(entry) if entry.in_progress && !entry.renewed => SyncEntry {
                next_attempt: wanted,
                attempt_count: 0,
                renewed: true,
                ..entry
            },
            Some(entry) => SyncEntry {
                next_attempt: entry.next_attempt.min(wanted),
                attempt_count: 0,
                ..entry
            },
            None => SyncEntry {
                next_attempt: wanted,
                attempt_count: 0,
                in_progress: false,
                renewed: false,
            },
        };
        if before == Some(entry) {
            return Vec::new();
        }
        self.set(identifier, entry);
        vec![Change::put_sync(identifier, &entry)]
    }

    /// Takes the identifier that is due first, if its time has come.
    pub(crate) fn begin(&mut self, now: Millis) -> Option<Identifier> {
        let (at, identifier) = self.due.first()?;
        if *at > now {
            return None;
        }
        let identifier = identifier.clone();
        let mut entry = *self.get(&identifier)?;
        entry.in_progress = true;
        self.set(&identifier, entry);
        Some(identifier)
    }

    /// Ends an attempt that did not bring everything; the next one is `delay` away, or sooner if
    /// a new event asked for it meanwhile.
    pub(crate) fn retry(
        &mut self,
        identifier: &Identifier,
        delay: Duration,
        now: Millis,
    ) -> Vec<Change> {
        let Some(mut entry) = self.get(identifier).copied().filter(|e| e.in_progress) else {
            return Vec::new();
        };
        if !entry.renewed {
            entry.attempt_count = entry.attempt_count.saturating_add(1);
            entry.next_attempt = now + delay;
        }
        entry.in_progress = false;
        entry.renewed = false;
        self.set(identifier, entry);
        vec![Change::put_sync(identifier, &entry)]
    }

    pub(crate) fn remove(&mut self, identifier: &Identifier) -> Option<Change> {
        let entry = self.entries.remove(identifier)?;
        self.due.remove(&(entry.next_attempt, identifier.clone()));
        Some(Change::remove_sync(identifier))
    }

    pub(crate) fn set(&mut self, identifier: &Identifier, entry: SyncEntry) {
        if let Some(before) = self.entries.insert(identifier.clone(), entry) {
            self.due.remove(&(before.next_attempt, identifier.clone()));
        }
        if !entry.in_progress {
            self.due.insert((entry.next_attempt, identifier.clone()));
        }
    }
}
