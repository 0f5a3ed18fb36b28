//! The sync queue: when data for an identifier is looked for elsewhere.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use grip_types::{FairLines, Identifier, Owner, Place};

use crate::{Change, Millis};

/// The search for the data of one identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncEntry {
    /// When the next attempt is due; of one under way, when it was.
    pub next_attempt: Millis,
    /// Attempts that did not bring everything, since the last new event.
    pub attempt_count: u32,
    /// An attempt is under way; the next one waits for its end.
    pub in_progress: bool,
    /// A new event came during the attempt under way and has set `next_attempt`.
    pub(crate) renewed: bool,
}

/// Bounded by what is held: an identifier for which nothing waits leaves the queue.
///
/// Those whose time has come take turns by their authors, those who are served here first: names
/// are free, and ten thousand of one author are one author.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyncQueue {
    entries: HashMap<Identifier, SyncEntry>,
    /// Those whose time is to come, in the order in which they are due.
    due: BTreeSet<(Millis, Identifier)>,
    /// Those whose time has come, and the place of each.
    ready: FairLines<Identifier>,
    places: HashMap<Identifier, Place>,
    latest_number: u64,
    /// Attempts under way. One may outlive its entry; should the identifier come back meanwhile,
    /// its next attempt waits for the end of that one.
    running: HashSet<Identifier>,
}

/// What is due follows from the entries, and whose turn it is from the moment.
impl PartialEq for SyncQueue {
    fn eq(&self, other: &Self) -> bool {
        (&self.entries, &self.running) == (&other.entries, &other.running)
    }
}

impl Eq for SyncQueue {}

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

    /// When the next attempt is due.
    pub(crate) fn next(&self) -> Option<Millis> {
        let ready = self.ready.keys().next();
        let ready = ready.and_then(|identifier| Some(self.get(identifier)?.next_attempt));
        ready.or_else(|| self.due.first().map(|(at, _)| *at))
    }

    /// Those not in progress, in the order in which they are due.
    pub(crate) fn due(&self) -> impl Iterator<Item = &Identifier> {
        let mut ready: Vec<&Identifier> = self.ready.keys().collect();
        ready.sort_by_key(|identifier| {
            (self.get(identifier).map(|it| it.next_attempt), *identifier)
        });
        let due = self.due.iter().map(|(_, identifier)| identifier);
        ready.into_iter().chain(due)
    }

    /// Those whose time has come since this was asked last.
    pub(crate) fn newly_due(&self, now: Millis) -> Vec<Identifier> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, identifier)| identifier.clone()).collect()
    }

    /// Has an identifier whose time has come wait for the turn of the best of its authors.
    pub(crate) fn make_ready(&mut self, identifier: Identifier, owners: &[Owner]) {
        let Some(entry) = self.get(&identifier).copied() else {
            return;
        };
        self.unfile(&identifier, &entry);
        let place = Place {
            owner: self.ready.choose(owners),
            number: self.number(),
        };
        self.places.insert(identifier.clone(), place);
        self.ready.push(place, identifier);
    }

    fn number(&mut self) -> u64 {
        self.latest_number += 1;
        self.latest_number
    }

    /// Those in progress.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Identifier> {
        self.running.iter()
    }

    /// A new event resets the count and may only bring the attempt forward.
    pub(crate) fn enqueue(
        &mut self,
        identifier: &Identifier,
        delay: Duration,
        now: Millis,
    ) -> Vec<Change> {
        let entry = SyncEntry {
            attempt_count: 0,
            ..self.brought_forward(identifier, now + delay)
        };
        self.change(identifier, entry)
    }

    /// Brings the attempt forward to `at`; the count stays.
    pub(crate) fn bring_forward(&mut self, identifier: &Identifier, at: Millis) -> Vec<Change> {
        let entry = self.brought_forward(identifier, at);
        self.change(identifier, entry)
    }

    /// Brings those forward to `at` that are due after `latest`, where none can be by right.
    pub(crate) fn bring_back_from(&mut self, latest: Millis, at: Millis) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some((due, identifier)) = self.due.last()
            && *due > latest
        {
            let identifier = identifier.clone();
            changes.extend(self.bring_forward(&identifier, at));
        }
        changes
    }

    fn brought_forward(&self, identifier: &Identifier, at: Millis) -> SyncEntry {
        match self.get(identifier).copied() {
            // The time of the attempt under way is spent: it cannot serve what comes now.
            Some(entry) if entry.in_progress && !entry.renewed => SyncEntry {
                next_attempt: at,
                renewed: true,
                ..entry
            },
            Some(entry) => SyncEntry {
                next_attempt: entry.next_attempt.min(at),
                ..entry
            },
            None => {
                let is_running = self.running.contains(identifier);
                SyncEntry {
                    next_attempt: at,
                    attempt_count: 0,
                    in_progress: is_running,
                    renewed: is_running,
                }
            }
        }
    }

    fn change(&mut self, identifier: &Identifier, entry: SyncEntry) -> Vec<Change> {
        if self.get(identifier) == Some(&entry) {
            return Vec::new();
        }
        self.set(identifier, entry);
        vec![Change::put_sync(identifier, &entry)]
    }

    /// Takes the identifier whose turn it is of those that are ready.
    pub(crate) fn begin(&mut self) -> Option<Identifier> {
        let number = self.number();
        let identifier = self.ready.pop(number)?;
        self.places.remove(&identifier);
        let mut entry = *self.get(&identifier)?;
        entry.in_progress = true;
        self.set(&identifier, entry);
        self.running.insert(identifier.clone());
        Some(identifier)
    }

    /// Ends the attempt under way: the next one comes at `next`, unless something has asked for
    /// one meanwhile. It counts if `counts`.
    pub(crate) fn end(
        &mut self,
        identifier: &Identifier,
        next: Millis,
        counts: bool,
    ) -> Vec<Change> {
        self.running.remove(identifier);
        let Some(mut entry) = self.get(identifier).copied().filter(|e| e.in_progress) else {
            return Vec::new();
        };
        if !entry.renewed {
            entry.attempt_count = entry.attempt_count.saturating_add(u32::from(counts));
            entry.next_attempt = next;
        }
        entry.in_progress = false;
        entry.renewed = false;
        self.set(identifier, entry);
        vec![Change::put_sync(identifier, &entry)]
    }

    /// Ends the attempt under way and the search with it.
    pub(crate) fn end_for_good(&mut self, identifier: &Identifier) -> Option<Change> {
        self.running.remove(identifier);
        self.remove(identifier)
    }

    pub(crate) fn remove(&mut self, identifier: &Identifier) -> Option<Change> {
        let entry = self.entries.remove(identifier)?;
        self.unfile(identifier, &entry);
        Some(Change::remove_sync(identifier))
    }

    #[cfg(test)]
    pub(crate) fn forget_running(&mut self) {
        self.running.clear();
    }

    pub(crate) fn set(&mut self, identifier: &Identifier, entry: SyncEntry) {
        if let Some(before) = self.entries.insert(identifier.clone(), entry) {
            self.unfile(identifier, &before);
        }
        if !entry.in_progress {
            self.due.insert((entry.next_attempt, identifier.clone()));
        }
    }

    fn unfile(&mut self, identifier: &Identifier, entry: &SyncEntry) {
        if let Some(place) = self.places.remove(identifier) {
            self.ready.remove(&place);
        }
        self.due.remove(&(entry.next_attempt, identifier.clone()));
    }
}
