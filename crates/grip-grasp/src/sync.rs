//! What the search for missing data asks of us: whose turn it is, what is missing, who may have it.
//!
//! The search itself is not here: this side knows events and rules, that one hosts and budgets.

mod needs;
mod waiting;

use std::time::Duration;

use grip_purgatory::{Millis, SyncEntry};
use grip_types::Identifier;
use serde::Serialize;
use tokio::sync::watch;

pub use needs::Need;
pub(crate) use needs::{asks, max_looks};
pub use waiting::{WaitingFacts, WaitingStatus};

use crate::{
    Grasp,
    grasp::{Core, now},
};

/// How an attempt for an identifier ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncAfter {
    /// Nothing is missing any more.
    Complete,
    /// Something is still missing: the attempt counts, and the next one comes after this.
    Retry(Duration),
    /// The attempt is not over: it does not count, and goes on after this.
    Resume(Duration),
}

/// How the search for one identifier's data stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SyncFacts {
    /// When the next attempt is due (unix milliseconds); of one under way, when it was.
    pub next_attempt: Millis,
    /// Attempts that did not bring everything, since the last new event.
    pub attempt_count: u32,
    pub in_progress: bool,
}

impl Core {
    pub(crate) fn search_facts(&self, identifier: &Identifier, entry: &SyncEntry) -> SyncFacts {
        let next_attempt = entry.next_attempt;
        SyncFacts {
            next_attempt: next_attempt.unwrap_or_else(|| self.wanted.next(identifier, now())),
            attempt_count: entry.attempt_count,
            in_progress: entry.in_progress,
        }
    }
}

impl Grasp {
    /// Says whether an event of this identifier waits for git data.
    pub fn has_pending_events(&self, identifier: &Identifier) -> bool {
        self.core.purgatory.lock().has_pending_events(identifier)
    }

    /// When the next attempt is due; none if nothing waits or all that waits is under way.
    pub fn next_sync(&self) -> Option<Millis> {
        let purgatory = self.core.purgatory.lock();
        purgatory.next_sync().map(|(at, _)| at)
    }

    /// Takes the identifier that is due first, if its time has come; nobody else gets it until
    /// [`Grasp::finish_sync`]. A restart before that makes the attempt again.
    pub fn begin_sync(&self) -> Option<Identifier> {
        self.core.purgatory.lock().begin_sync(now())
    }

    /// Ends what [`Grasp::begin_sync`] began, durably. Without an attempt under way it does
    /// nothing.
    pub async fn finish_sync(&self, identifier: &Identifier, after: SyncAfter) {
        let ended = self.core.held(|purgatory| {
            let changes = match after {
                SyncAfter::Complete => purgatory.complete_sync(identifier, now()),
                SyncAfter::Retry(delay) => purgatory.retry_sync(identifier, delay, now()),
                SyncAfter::Resume(delay) => purgatory.resume_sync(identifier, delay, now()),
            };
            ((), changes)
        });
        if let Err(error) = ended.await {
            error.log("the end of an attempt could not be journalled; a restart repeats it");
        }
        self.core.sync_ends.send_modify(|count| *count += 1);
    }

    /// Changes whenever [`Grasp::next_sync`] may have come forward.
    pub fn sync_changes(&self) -> watch::Receiver<u64> {
        self.core.sync_changes.subscribe()
    }

    /// How many identifiers wait for data, attempts under way included.
    pub fn sync_queue_len(&self) -> usize {
        self.core.purgatory.lock().count().sync_queue
    }

    pub fn sync_entry(&self, identifier: &Identifier) -> Option<SyncFacts> {
        let purgatory = self.core.purgatory.lock();
        let entry = purgatory.sync_entry(identifier);
        entry.map(|entry| self.core.search_facts(identifier, entry))
    }

    /// The first `limit` identifiers that wait for data: those under way, then the others in the
    /// order in which they are due.
    pub fn sync_queue(&self, limit: usize) -> Vec<(Identifier, SyncFacts)> {
        let purgatory = self.core.purgatory.lock();
        let queue = purgatory.sync_queue().take(limit);
        queue
            .map(|(it, entry)| (it.clone(), self.core.search_facts(it, entry)))
            .collect()
    }

    /// Brings the next attempt forward to this moment; false if nothing waits for it.
    pub async fn sync_now(&self, identifier: &Identifier) -> bool {
        let brought = self.core.held(|purgatory| {
            let waits = purgatory.has_pending_events(identifier);
            (waits, purgatory.sync_now(identifier, now()))
        });
        brought.await.unwrap_or_else(|error| {
            error.log("an attempt brought forward could not be journalled");
            self.has_pending_events(identifier)
        })
    }
}
