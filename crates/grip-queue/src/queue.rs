//! The queue: claim, renew, and what its users need.

pub(crate) mod causes;
mod enqueue;
mod finish;
pub(crate) mod listing;
mod maintenance;
pub(crate) mod stats;

use std::{sync::Arc, time::Duration};

use grip_db::{Column, Db, DbError, Value};
use tokio::{sync::watch, time::Instant};

use self::{maintenance::TableSize, stats::Sampler};
use crate::{
    Backoff, Lease,
    clock::{lease_length, millis},
    sql,
};

/// Most jobs of one kind; found by sampling, so it may be passed by those of a few seconds.
pub const MOST_JOBS: i64 = 4_000_000;
/// How long a job that failed for good is kept for somebody to look at, unless it has a period.
pub const KEEP_DEAD: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Jobs that one claim may take.
const MOST_CLAIMED: usize = 1_000;

/// Work that is shared by all instances on the same database. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    /// Who we are, for the operator.
    holder: String,
    backoff: Backoff,
    sampler: Sampler,
    known: TableSize,
}

struct Claimed {
    id: i64,
    lease_token: i64,
    key: String,
    payload: String,
    attempts: i64,
    limited: i64,
    lost: i64,
    asked: i64,
    period_ms: Option<i64>,
}

grip_db::from_row!(Claimed {
    id,
    lease_token,
    key,
    payload,
    attempts,
    limited,
    lost,
    asked,
    period_ms,
});

impl Queue {
    pub fn new(db: Db) -> Self {
        Self::with_backoff(db, Backoff::default())
    }

    pub fn with_backoff(db: Db, backoff: Backoff) -> Self {
        let random: u32 = rand::random();
        let holder = format!("{}/{}/{random:08x}", db.node(), std::process::id());
        let holder = holder.trim_start_matches('/').to_owned();
        let inner = Inner {
            db,
            holder,
            backoff,
            sampler: Sampler::default(),
            known: TableSize::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    pub fn db(&self) -> &Db {
        &self.inner.db
    }

    /// The name under which this one holds leases.
    pub fn holder(&self) -> &str {
        &self.inner.holder
    }

    /// Moves whenever there may be new work of the kind.
    pub fn listen(&self, kind: &str) -> watch::Receiver<u64> {
        self.inner.db.topic(&topic(kind))
    }

    /// Takes up to `most` jobs that are due, the longest due first, for as long as `lease`.
    pub async fn claim(
        &self,
        kind: &str,
        most: usize,
        lease: Duration,
    ) -> Result<Vec<Lease>, DbError> {
        self.claim_able(kind, None, most, lease).await
    }

    /// The same of jobs that need one of these capabilities; None: of all.
    pub async fn claim_able(
        &self,
        kind: &str,
        capabilities: Option<&[String]>,
        most: usize,
        lease: Duration,
    ) -> Result<Vec<Lease>, DbError> {
        let (lease, began) = (lease_length(lease), Instant::now());
        let now = self.inner.db.now_ms();
        let ends_ms = now.saturating_add(millis(lease));
        let most = most.min(MOST_CLAIMED) as i64;
        let holder = Value::from(&self.inner.holder);
        let mut values = vec![kind.into(), now.into(), most.into(), ends_ms.into(), holder];
        let statement = match capabilities {
            None => &sql::CLAIM,
            Some(able) => {
                values.push(able.to_vec().into());
                &sql::CLAIM_ABLE
            }
        };
        let claiming = self.inner.db.write_one(move |mut db| {
            Box::pin(async move { db.fetch_all(statement, &values).await })
        });
        let claimed: Vec<Claimed> = claiming.await?;
        let leased = claimed.into_iter().map(|row| Lease {
            id: row.id,
            token: row.lease_token,
            kind: kind.to_owned(),
            key: row.key,
            payload: row.payload,
            attempts: row.attempts,
            limited: row.limited,
            lost: row.lost,
            asked: row.asked,
            period_ms: row.period_ms,
            ends_ms,
            ends: began + lease,
        });
        Ok(leased.collect())
    }

    /// Gives the leases their full length again, counted from now, and says which are still ours.
    pub async fn renew(&self, leases: &[&Lease], lease: Duration) -> Result<Vec<i64>, DbError> {
        let held = leases.iter().map(|lease| (lease.id, lease.token)).collect();
        self.renew_held(held, lease).await
    }

    pub(crate) async fn renew_held(
        &self,
        held: Vec<(i64, i64)>,
        lease: Duration,
    ) -> Result<Vec<i64>, DbError> {
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let ends_ms = Value::from(self.inner.db.now_ms() + millis(lease_length(lease)));
        let columns = columns(held);
        let renewing = self.inner.db.write_one(|mut db| {
            Box::pin(async move { db.fetch_rows(&sql::RENEW, &columns, &[ends_ms]).await })
        });
        let ours: Vec<(i64,)> = renewing.await?;
        Ok(ours.into_iter().map(|(id,)| id).collect())
    }

    /// When the next job of the kind is due, or the next lease ends.
    pub async fn next_due(&self, kind: &str) -> Result<Option<i64>, DbError> {
        self.next_due_able(kind, None).await
    }

    /// The same of jobs that need one of these capabilities; None: of all.
    pub async fn next_due_able(
        &self,
        kind: &str,
        capabilities: Option<&[String]>,
    ) -> Result<Option<i64>, DbError> {
        let kind = Value::from(kind);
        let db = &self.inner.db;
        let (due,): (Option<i64>,) = match capabilities {
            None => db.fetch_one(&sql::NEXT_DUE, &[kind]).await?,
            Some(able) => {
                let values = [kind, able.to_vec().into()];
                db.fetch_one(&sql::NEXT_DUE_ABLE, &values).await?
            }
        };
        Ok(due)
    }
}

fn topic(kind: &str) -> String {
    format!("queue {kind}")
}

/// Ids and tokens, for statements over many leases.
fn columns(held: Vec<(i64, i64)>) -> [Column; 2] {
    let (ids, tokens) = held.into_iter().unzip();
    [Column::Ints(ids), Column::Ints(tokens)]
}

#[cfg(test)]
mod tests;
