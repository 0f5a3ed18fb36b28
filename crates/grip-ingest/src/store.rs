//! The ingest's tables, on both engines.
//!
//! Invariants:
//! - All who write take rows in one order: the lock for duplicates, events by id, jobs, what was
//!   rejected, counts, the source. So nobody waits for another in a circle.
//! - Every write can be done twice.

mod duplicates;
mod events;
mod field_sql;
mod json_fill;
mod long_work;
mod records;
mod reextraction;
pub(crate) mod retention;
mod sources;
mod sql;

use std::future::Future;

use grip_db::{Connection, Db, DbError};
use grip_queue::{Finished, Lease, Queue};

pub(crate) use self::{
    events::accept_in,
    json_fill::JsonFill,
    records::{Known, RecordKind},
    reextraction::Reextraction,
    sources::{Hole, Polled, SourceRow, end_poll_in},
};
pub use self::{
    events::{EventCursor, EventQuery, StoredEvent},
    records::{Key, Stored},
    sources::Gap,
};

/// How often work is tried again that was undone because others were in its way.
const CONFLICTS: usize = 3;

#[derive(Clone)]
pub(crate) struct Store {
    db: Db,
}

impl Store {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.db.now_ms()
    }
}

/// Ends a job in the caller's transaction, which is undone where somebody else has the job.
pub(crate) async fn finish_in(
    db: &mut Connection<'_>,
    queue: &Queue,
    lease: &Lease,
) -> Result<(), DbError> {
    match queue.finish_in(db, lease).await? {
        Finished::Lost => Err(DbError::Aborted),
        Finished::Done | Finished::Again => Ok(()),
    }
}

/// Does it again where others were in its way.
pub(crate) async fn retry_on_conflict<T, F>(mut work: impl FnMut() -> F) -> Result<T, DbError>
where
    F: Future<Output = Result<T, DbError>>,
{
    let mut tries = 1;
    loop {
        match work().await {
            Err(DbError::Conflict(_)) if tries < CONFLICTS => tries += 1,
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests;
