//! The service's side of the search for missing data: which identifier is due, what it lacks.
//!
//! The search itself is not here: this side knows events and rules, that one hosts and budgets.

mod needs;
mod waiting;

use grip_purgatory::{AttemptEnd, Millis, Need, NeedsError, NextSync, SyncContext, SyncEntry};
use grip_types::Identifier;
use serde::Serialize;
use tokio::sync::watch;

pub(crate) use needs::{asks, max_looks};
pub(crate) use waiting::search;
pub use waiting::{WaitingFacts, WaitingStatus};

use crate::{DataSource, Grasp, grasp::now};

/// How the search for one identifier's data stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SyncFacts {
    /// When the next attempt is due (unix milliseconds); of one under way, when it was.
    pub next_attempt: Millis,
    /// Attempts that did not bring everything, since the last new event.
    pub attempt_count: u32,
    pub in_progress: bool,
}

impl From<&SyncEntry> for SyncFacts {
    fn from(entry: &SyncEntry) -> Self {
        Self {
            next_attempt: entry.next_attempt,
            attempt_count: entry.attempt_count,
            in_progress: entry.in_progress,
        }
    }
}

impl SyncContext for Grasp {
    fn now(&self) -> Millis {
        now()
    }

    fn next_sync(&self) -> Option<Millis> {
        let purgatory = self.core.purgatory.lock();
        purgatory.next_sync()
    }

    fn begin_sync(&self) -> NextSync {
        self.core.purgatory.lock().begin_sync(now())
    }

    fn attempt_count(&self, identifier: &Identifier) -> u32 {
        let purgatory = self.core.purgatory.lock();
        let entry = purgatory.sync_entry(identifier);
        entry.map_or(0, |entry| entry.attempt_count)
    }

    async fn finish_sync(&self, identifier: &Identifier, end: AttemptEnd) {
        let ended = self.core.held(|purgatory| {
            let changes = match end {
                AttemptEnd::Complete => purgatory.complete_sync(identifier, now()),
                AttemptEnd::Retry(delay) => purgatory.retry_sync(identifier, delay, now()),
                AttemptEnd::Resume(delay) => purgatory.resume_sync(identifier, delay, now()),
            };
            ((), changes)
        });
        if let Err(error) = ended.await {
            error.log("failed to journal the end of an attempt; a restart repeats it");
        }
    }

    fn sync_changes(&self) -> watch::Receiver<u64> {
        self.core.sync_changes.subscribe()
    }

    fn has_pending_events(&self, identifier: &Identifier) -> bool {
        self.core.purgatory.lock().has_pending_events(identifier)
    }

    async fn needs(&self, identifier: &Identifier) -> Result<Vec<Need>, NeedsError> {
        let needs = self.look_up_needs(identifier).await;
        needs.map_err(|error| NeedsError(Box::new(error)))
    }

    async fn process_newly_available_git_data(&self, identifier: &Identifier) -> usize {
        let released = self.process_newly_available_git_data(identifier, DataSource::Fetch);
        let released = released.await;
        for error in &released.errors {
            tracing::warn!(%identifier, error, "failed to apply fetched objects");
        }
        released.events.len()
    }
}

impl Grasp {
    /// How many identifiers wait for data, attempts under way included.
    pub fn sync_queue_len(&self) -> usize {
        self.core.purgatory.lock().count().sync_queue
    }

    pub fn sync_entry(&self, identifier: &Identifier) -> Option<SyncFacts> {
        let purgatory = self.core.purgatory.lock();
        let entry = purgatory.sync_entry(identifier);
        entry.map(SyncFacts::from)
    }

    /// The first `limit` identifiers that wait for data: those under way, then the others in the
    /// order in which they are due.
    pub fn sync_queue(&self, limit: usize) -> Vec<(Identifier, SyncFacts)> {
        let purgatory = self.core.purgatory.lock();
        let queue = purgatory.sync_queue().take(limit);
        queue
            .map(|(it, entry)| (it.clone(), entry.into()))
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
