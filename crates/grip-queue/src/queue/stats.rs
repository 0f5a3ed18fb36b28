//! Counts of jobs by kind and state, at a bounded price.

use std::{collections::BTreeSet, time::Duration};

use grip_db::DbError;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{MOST_JOBS, Queue};
use crate::{
    clock::{LONGEST_LEASE, NEVER, millis},
    sql,
};

/// How long a count is shown at least before it is made again.
const FRESH: Duration = Duration::from_secs(5);
/// At most one part in so many of the time is spent on counting.
const PART: u32 = 50;

/// What there is of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct KindStats {
    pub kind: String,
    /// May be claimed now.
    pub due: i64,
    /// Are due later.
    pub waiting: i64,
    /// Are worked on.
    pub leased: i64,
    /// Failed for good.
    pub dead: i64,
    /// For how long the job has been due that has been due longest; 0 if none is.
    pub oldest_due_age_ms: i64,
}

grip_db::from_row!(KindStats {
    kind,
    due,
    waiting,
    leased,
    dead,
    oldest_due_age_ms
});

/// The last count.
#[derive(Default)]
pub(super) struct Sampler {
    last: Mutex<Option<Sample>>,
    /// One count at a time.
    counting: tokio::sync::Mutex<()>,
}

struct Sample {
    kinds: Vec<KindStats>,
    /// Those that take no new jobs.
    full: BTreeSet<String>,
    until: Instant,
}

impl Sampler {
    pub(super) fn is_full(&self, kind: &str) -> bool {
        let last = self.last.lock();
        last.as_ref().is_some_and(|last| last.full.contains(kind))
    }

    fn fresh(&self) -> Option<Vec<KindStats>> {
        let last = self.last.lock();
        let last = last.as_ref().filter(|last| Instant::now() < last.until);
        last.map(|last| last.kinds.clone())
    }

    fn stale(&self) -> Option<Vec<KindStats>> {
        let last = self.last.lock();
        last.as_ref().map(|last| last.kinds.clone())
    }

    pub(super) fn keep(&self, kinds: &[KindStats], took: Duration) {
        let size = |kind: &KindStats| kind.due + kind.waiting + kind.leased + kind.dead;
        let full = kinds.iter().filter(|kind| size(kind) >= MOST_JOBS);
        *self.last.lock() = Some(Sample {
            full: full.map(|kind| kind.kind.clone()).collect(),
            kinds: kinds.to_vec(),
            until: Instant::now() + FRESH.max(took * PART),
        });
    }
}

impl Queue {
    /// The jobs of each kind that has any, by kind.
    ///
    /// As they were a moment ago: counted at most every five seconds, and less often where a
    /// count takes long, so that the share of it stays the same however many jobs there are.
    pub async fn stats(&self) -> Result<Vec<KindStats>, DbError> {
        let sampler = &self.inner.sampler;
        if let Some(kinds) = sampler.fresh() {
            return Ok(kinds);
        }
        let _alone = match (sampler.counting.try_lock(), sampler.stale()) {
            (Ok(alone), _) => alone,
            // Somebody counts: nobody waits for that who has something to show.
            (Err(_), Some(kinds)) => return Ok(kinds),
            (Err(_), None) => sampler.counting.lock().await,
        };
        if let Some(kinds) = sampler.fresh() {
            return Ok(kinds);
        }
        let began = Instant::now();
        let kinds = self.count().await?;
        sampler.keep(&kinds, began.elapsed());
        Ok(kinds)
    }

    async fn count(&self) -> Result<Vec<KindStats>, DbError> {
        let now = self.inner.db.now_ms();
        let leases_end = now.saturating_add(millis(LONGEST_LEASE));
        let values = [now.into(), leases_end.into(), NEVER.into()];
        let counting = self.inner.db.fetch_all(&sql::STATS, &values);
        counting.await
    }
}
