//! What has to be done now and then.

use grip_db::DbError;

use super::{KEEP_DEAD, Queue, topic};
use crate::{
    clock::{HORIZON_MS, LONGEST_LEASE, NEVER, millis},
    sql,
};

/// By how much clocks may differ.
const SLACK_MS: i64 = 60_000;

impl Queue {
    /// Brings back what lies further ahead than it can, as after the database's clock was set
    /// back: a lease to the longest there is, a job to some time within its period. Says how many
    /// there were.
    pub async fn heed_clock(&self, kind: &str) -> Result<u64, DbError> {
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
                let brought = db.execute(&sql::HEED_CLOCK, &values).await?;
                if brought > 0 {
                    db.notify(&topic).await?;
                }
                Ok(brought)
            })
        });
        heeding.await
    }

    /// Forgets the jobs that failed for good longer ago than they are kept; says how many.
    pub async fn forget_dead(&self, kind: &str) -> Result<u64, DbError> {
        let before = self.inner.db.now_ms() - millis(KEEP_DEAD);
        let values = [kind.into(), before.into(), NEVER.into()];
        let forgetting = self.inner.db.write_one(|mut db| {
            Box::pin(async move { db.execute(&sql::FORGET_DEAD, &values).await })
        });
        forgetting.await
    }
}
