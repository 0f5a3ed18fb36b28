//! Reading the journal back at the start.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use grip_types::Identifier;

use super::Purgatory;
use crate::{
    Bounds, Change, Millis, RESTART_GRACE, Row, UnreadableRow, entry::NamedRef, journal::Stored,
};

/// The time in rows of versions that left the search for wanted events to the work queue.
const NO_TIME: Millis = Millis::new(i64::MAX);

/// What came of the journal.
#[derive(Debug)]
pub struct Restored {
    pub purgatory: Purgatory,
    /// Deadlines that were moved, searches that were ended or begun, to be journalled.
    pub changes: Vec<Change>,
    /// Rows that could not be read; they are still in the journal.
    pub unreadable: Vec<UnreadableRow>,
}

impl Purgatory {
    /// Rebuilds the purgatory from the rows of its journal.
    ///
    /// Lifetimes are absolute. An entry whose deadline passed while the node was down gets five
    /// minutes (G01-21), once: the new deadline is journalled. Bounds do not apply to what is held:
    /// it was acknowledged.
    pub fn restore(rows: impl IntoIterator<Item = Row>, bounds: Bounds, now: Millis) -> Restored {
        let mut restored = Restored {
            purgatory: Self::new(bounds),
            changes: Vec::new(),
            unreadable: Vec::new(),
        };
        for row in rows {
            match Stored::read(&row) {
                Ok(stored) => restored
                    .changes
                    .extend(restored.purgatory.take_in(stored, now)),
                Err(source) => restored.unreadable.push(UnreadableRow { row, source }),
            }
        }
        let given_up = restored.purgatory.keep_wanted_bounds();
        restored.changes.extend(given_up);
        let stray = restored.purgatory.end_stray_syncs();
        restored.changes.extend(stray);
        let lost = restored.purgatory.begin_lost_syncs(now);
        restored.changes.extend(lost);
        restored
    }

    /// Ends searches for which nothing waits, as when the row of the event could not be read.
    fn end_stray_syncs(&mut self) -> Vec<Change> {
        let queued: Vec<Identifier> = self.sync.identifiers().cloned().collect();
        let ended = queued.iter().filter_map(|it| self.end_idle_search(it));
        ended.collect()
    }

    /// Begins searches that have no row although something waits, as when it could not be read.
    fn begin_lost_syncs(&mut self, now: Millis) -> Vec<Change> {
        let held = self.states.keys().chain(self.prs_by_identifier.keys());
        let waiting = held.chain(self.wanted.identifiers());
        let lost = waiting.filter(|it| self.sync.get(it).is_none());
        let lost: BTreeSet<Identifier> = lost.cloned().collect();
        let begun = lost.iter().map(|it| {
            if self.has_held_events(it) {
                self.enqueue_sync_default(it, now)
            } else {
                self.sync.bring_forward(it, self.spread(it, now))
            }
        });
        begun.collect::<Vec<_>>().concat()
    }

    /// A time within the interval of wanted events that belongs to the identifier: a thousand of
    /// them are not looked for at once.
    fn spread(&self, identifier: &Identifier, now: Millis) -> Millis {
        let mut hasher = DefaultHasher::new();
        identifier.hash(&mut hasher);
        let share = f64::from(hasher.finish() as u32) / f64::from(u32::MAX);
        now + self.bounds.wanted_interval.mul_f64(share)
    }

    fn take_in(&mut self, stored: Stored, now: Millis) -> Option<Change> {
        match stored {
            Stored::Announcement(mut entry) => {
                let moved = grace(&mut entry.held.expires_at, now);
                let change = self.set_announcement(entry);
                moved.then_some(change)
            }
            Stored::State(mut entry) => {
                let moved = grace(&mut entry.held.expires_at, now);
                let change = moved.then(|| Change::put_state(&entry));
                self.count_in(&entry);
                self.insert_state(entry);
                change
            }
            Stored::Pr(mut entry) => {
                let moved = grace(&mut entry.held.expires_at, now);
                let change = moved.then(|| Change::put_pr(&entry));
                self.count_in(&entry);
                self.insert_pr(entry);
                change
            }
            Stored::Placeholder {
                event_id,
                repo,
                mut pushed,
            } => {
                let moved = grace(&mut pushed.expires_at, now);
                let named = NamedRef {
                    event_id,
                    repo: &repo,
                    pushed,
                };
                let change = moved.then(|| Change::put_placeholder(&named));
                self.count_in(&named);
                self.insert_placeholder_ref(event_id, repo, pushed);
                change
            }
            Stored::Sync(identifier, mut entry) => {
                let has_no_time = entry.next_attempt == NO_TIME;
                if has_no_time {
                    entry.next_attempt = self.spread(&identifier, now);
                }
                self.sync.set(&identifier, entry);
                has_no_time.then(|| Change::put_sync(&identifier, &entry))
            }
            Stored::Expired(id, at) => {
                self.expired.insert(id, at);
                None
            }
            // No grace for it: nobody was promised anything.
            Stored::Wanted(entry) => {
                self.wanted.insert(entry);
                None
            }
        }
    }
}

fn grace(expires_at: &mut Millis, now: Millis) -> bool {
    let passed = *expires_at <= now;
    if passed {
        *expires_at = now + RESTART_GRACE;
    }
    passed
}
