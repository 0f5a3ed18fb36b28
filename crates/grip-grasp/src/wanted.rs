//! When data is looked for of which nothing is held any more: by rows of the work queue.
//!
//! Invariant: every identifier with a wanted event has a row, written in the transaction that
//! journals the event and removed with it. So the search goes on by the queue's clock, over
//! restarts, and the purgatory schedules only what is held.

mod handler;
mod rows;

use std::{collections::BTreeSet, sync::Arc};

use grip_db::DbError;
use grip_queue::{Worker, WorkerOptions};
use grip_tasks::TaskGroup;
use grip_types::Identifier;

use self::handler::Seeker;
pub(crate) use self::rows::Rows;
use crate::{Grasp, error::GraspError, grasp::Core};

/// Searches that are waited for at a time. They cost nothing here: the sync bounds its own.
const AT_ONCE: usize = 256;
const TAKE: usize = 64;

impl Grasp {
    /// Has data of wanted events looked for when its time has come, as long as the worker lives.
    /// Somebody has to make the attempts; see [`Grasp::begin_sync`].
    pub fn look_for_wanted(&self, group: &TaskGroup) -> Worker {
        let rows = &self.core.wanted;
        let options = WorkerOptions {
            at_once: AT_ONCE,
            take: TAKE,
            ..WorkerOptions::default()
        };
        let seeker = Arc::new(Seeker::new(Arc::clone(&self.core)));
        Worker::start(rows.queue().clone(), rows.kind(), seeker, options, group)
    }
}

impl Core {
    fn wanted_identifiers(&self) -> BTreeSet<Identifier> {
        let purgatory = self.purgatory.lock();
        purgatory.wanted_identifiers().cloned().collect()
    }

    /// Brings the rows in step with what is wanted; nobody else is at work yet.
    pub(crate) async fn begin_wanted(&self) -> Result<(), DbError> {
        self.wanted.begin(self.wanted_identifiers()).await
    }

    /// Writes rows that could not be written when they should have been.
    pub(crate) async fn repair_wanted(&self) {
        if !self.wanted.take_doubt() {
            return;
        }
        if let Err(error) = self.wanted.complete(self.wanted_identifiers()).await {
            self.wanted.doubt();
            GraspError::from(error).log("searches could not be put on the queue");
        }
    }
}
