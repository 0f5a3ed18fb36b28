//! Periodic maintenance of the table.

use std::sync::atomic::{AtomicI64, Ordering};

use grip_db::{DbError, Engine};

use super::{KEEP_DEAD, Queue, topic};
use crate::{
    clock::{HORIZON_MS, LONGEST_LEASE, NEVER, millis},
    sql,
};

/// By how much clocks may differ.
const SLACK_MS: i64 = 60_000;

/// A table that is smaller is quick to read as a whole.
const SMALL_BYTES: i64 = 1 << 20;

/// The size of the table when the server last looked at what is in it.
#[derive(Default)]
pub(super) struct TableSize {
    bytes: AtomicI64,
}

impl Queue {
    /// Lets the server look at the table again where that has grown much.
    ///
    /// It keeps the plans it made, and those for a small table read it as a whole: after thousands
    /// of jobs came at once, claims would be slow until it looks by itself. Says whether it did.
    pub(crate) async fn analyze_if_grown(&self) -> Result<bool, DbError> {
        let db = &self.inner.db;
        if db.engine() == Engine::Sqlite {
            return Ok(false);
        }
        let sizing = db.fetch_one(&sql::SIZE, &[]);
        let (bytes,): (i64,) = sizing.await?;
        let known = &self.inner.known.bytes;
        let last = known.fetch_min(bytes, Ordering::Relaxed).min(bytes);
        if bytes < SMALL_BYTES || bytes / 2 < last {
            return Ok(false);
        }
        known.store(bytes, Ordering::Relaxed);
        let looking = db.execute(&sql::ANALYZE, &[]);
        looking.await?;
        Ok(true)
    }

    /// Makes due at once what a former run of this node held when it ended without giving it back.
    /// Says how many there were.
    ///
    /// Only for the one process of a node, before it claims anything.
    pub async fn reclaim(&self) -> Result<u64, DbError> {
        let db = &self.inner.db;
        // A file belongs to one node, which has no name.
        let held_by = match db.node() {
            "" => String::new(),
            node => format!("{node}/"),
        };
        let values = [db.now_ms().into(), held_by.into()];
        db.execute(&sql::RECLAIM, &values).await
    }

    /// Brings back what lies further ahead than it can, as after the database's clock was set
    /// back: a lease to the longest there is, a job to some time within its period. Says how many
    /// there were.
    pub async fn adjust_to_clock(&self, kind: &str) -> Result<u64, DbError> {
        let now = self.inner.db.now_ms();
        let lease_end = now + millis(LONGEST_LEASE) + SLACK_MS;
        let values = [
            kind.into(),
            now.into(),
            lease_end.into(),
            (now + SLACK_MS).into(),
            HORIZON_MS.into(),
            NEVER.into(),
        ];
        let topic = topic(kind);
        let heeding = self.inner.db.write(|mut db| {
            Box::pin(async move {
                let brought = db.execute(&sql::ADJUST_TO_CLOCK, &values).await?;
                if brought > 0 {
                    db.notify(&topic).await?;
                }
                Ok(brought)
            })
        });
        heeding.await
    }

    /// Forgets the jobs that failed for good longer ago than they are kept; says how many. Those
    /// with a period stay until somebody asks for them again or removes them.
    pub async fn forget_dead(&self, kind: &str) -> Result<u64, DbError> {
        let before = self.inner.db.now_ms() - millis(KEEP_DEAD);
        let values = [kind.into(), before.into(), NEVER.into()];
        let forgetting = self.inner.db.execute(&sql::FORGET_DEAD, &values);
        forgetting.await
    }
}
