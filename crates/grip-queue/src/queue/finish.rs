//! Ends of a lease: finish, fail, postpone, remove, release. Each names the lease by its token, and
//! changes nothing with an old one.

use grip_db::{Connection, DbError, Value};

use super::{Queue, columns, topic};
use crate::{Failed, Failure, Finished, Lease, clock::latest_due, reason::cleaned, retry, sql};

impl Queue {
    /// The job is done: it goes, or waits for its next period. Also after the lease has run out,
    /// as long as nobody else has claimed the job.
    pub async fn finish(&self, lease: &Lease) -> Result<Finished, DbError> {
        let ending = LeaseEnd::new(self, lease);
        // Each statement decides by itself, so they need no transaction around them.
        self.inner
            .db
            .write_one(|mut db| Box::pin(async move { ending.finish(&mut db).await }))
            .await
    }

    /// Like [`Queue::finish`], as a part of the caller's transaction: on [`Finished::Lost`] it
    /// gives its work up ([`DbError::Aborted`]), because somebody else does it.
    pub async fn finish_in(
        &self,
        db: &mut Connection<'_>,
        lease: &Lease,
    ) -> Result<Finished, DbError> {
        LeaseEnd::new(self, lease).finish(db).await
    }

    /// Says whether the lease is still the latest, and keeps it so until the caller's transaction
    /// ends: for work that is written in several, so that each of them is given up if somebody
    /// else does it.
    pub async fn hold_in(&self, db: &mut Connection<'_>, lease: &Lease) -> Result<bool, DbError> {
        let named = LeaseEnd::new(self, lease).named;
        Ok(db.execute(&sql::HOLD, &named).await? == 1)
    }

    /// Forgets what the job was asked with, unless it was asked for again, as a part of the
    /// caller's transaction: for work with a period, of which only the next turn is meant.
    pub async fn drop_payload_in(
        &self,
        db: &mut Connection<'_>,
        lease: &Lease,
    ) -> Result<(), DbError> {
        let named = LeaseEnd::new(self, lease).named;
        db.execute(&sql::DROP_PAYLOAD, &named).await.map(drop)
    }

    /// The job is not needed any more: it goes, also one with a period. One that was asked for in
    /// the meantime stays and is due again.
    pub async fn remove_leased(&self, lease: &Lease) -> Result<Finished, DbError> {
        let ending = LeaseEnd::new(self, lease);
        self.inner
            .db
            .write_one(|mut db| Box::pin(async move { ending.remove(&mut db).await }))
            .await
    }

    /// Like [`Queue::remove_leased`], as a part of the caller's transaction.
    pub async fn remove_leased_in(
        &self,
        db: &mut Connection<'_>,
        lease: &Lease,
    ) -> Result<Finished, DbError> {
        LeaseEnd::new(self, lease).remove(db).await
    }

    /// The job was not done; the class says what follows. A job with a period that is not tried
    /// again waits for its next one and keeps the reason, unless the failure is permanent.
    pub async fn fail(&self, lease: &Lease, failure: Failure) -> Result<Failed, DbError> {
        let now = self.inner.db.now_ms();
        let backoff = &self.inner.backoff;
        let next = retry::next(lease, failure.class, backoff, now, rand::random());
        let values = [
            lease.id.into(),
            lease.token.into(),
            next.visible_at.into(),
            next.attempts.into(),
            next.limited.into(),
            cleaned(&failure.reason).into(),
            Value::MaybeInt(next.dead.then_some(now)),
            Value::Int(next.given_up.into()),
        ];
        let failing = self.inner.db.write_one(|mut db| {
            Box::pin(async move { db.fetch_optional(&sql::FAIL, &values).await })
        });
        let row: Option<(i64, Option<i64>)> = failing.await?;
        Ok(match row {
            None => Failed::Lost,
            Some((_, Some(_))) => Failed::Dead,
            Some((at_ms, None)) => Failed::Later { at_ms },
        })
    }

    /// Puts the job off without counting it as a failure; false if the lease was lost.
    pub async fn postpone(
        &self,
        lease: &Lease,
        until_ms: i64,
        reason: &str,
    ) -> Result<bool, DbError> {
        let now = self.inner.db.now_ms();
        let until_ms = until_ms.min(latest_due(now, lease.period_ms));
        let values = [
            lease.id.into(),
            lease.token.into(),
            until_ms.into(),
            cleaned(reason).into(),
        ];
        let postponing = self.inner.db.execute(&sql::POSTPONE, &values);
        Ok(postponing.await? == 1)
    }

    /// Gives a job to those who have another capability: it is due at once, and nothing is counted.
    /// False if the lease was lost.
    pub async fn hand_over(&self, lease: &Lease, capability: &str) -> Result<bool, DbError> {
        let values = [
            lease.id.into(),
            lease.token.into(),
            capability.into(),
            self.inner.db.now_ms().into(),
        ];
        let topic = topic(&lease.kind);
        let handing = self.inner.db.write(|mut db| {
            Box::pin(async move {
                let is_ours = db.execute(&sql::HAND_OVER, &values).await? == 1;
                db.notify(&topic).await?;
                Ok(is_ours)
            })
        });
        handing.await
    }

    /// Gives the jobs back: they are due at once, and nothing is counted. Says how many were
    /// still ours.
    pub async fn release(&self, leases: &[Lease]) -> Result<u64, DbError> {
        let mut kinds: Vec<&str> = leases.iter().map(|lease| lease.kind.as_str()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let held = leases.iter().map(|lease| (lease.id, lease.token)).collect();
        self.release_held(held, &kinds).await
    }

    pub(crate) async fn release_held(
        &self,
        held: Vec<(i64, i64)>,
        kinds: &[&str],
    ) -> Result<u64, DbError> {
        if held.is_empty() {
            return Ok(0);
        }
        let now = Value::from(self.inner.db.now_ms());
        let columns = columns(held);
        let topics: Vec<String> = kinds.iter().map(|kind| topic(kind)).collect();
        let releasing = self.inner.db.write(|mut db| {
            Box::pin(async move {
                let count = db.execute_rows(&sql::RELEASE, &columns, &[now]).await?;
                for topic in topics {
                    db.notify(&topic).await?;
                }
                Ok(count)
            })
        });
        releasing.await
    }
}

/// What the statements that end a lease need.
struct LeaseEnd {
    named: [Value; 2],
    periodic: bool,
    now_ms: i64,
}

impl LeaseEnd {
    fn new(queue: &Queue, lease: &Lease) -> Self {
        Self {
            named: [lease.id.into(), lease.token.into()],
            periodic: lease.period_ms.is_some(),
            now_ms: queue.inner.db.now_ms(),
        }
    }

    async fn finish(self, db: &mut Connection<'_>) -> Result<Finished, DbError> {
        // A period is never taken away, so only a job without one can be gone. The order counts:
        // what keeps the row from going also makes it fit the second statement.
        if !self.periodic && db.execute(&sql::FINISH_GONE, &self.named).await? == 1 {
            return Ok(Finished::Done);
        }
        let [id, token] = self.named;
        let values = [id, token, self.now_ms.into()];
        let row: Option<(i64, Option<i64>)> =
            db.fetch_optional(&sql::FINISH_STAYS, &values).await?;
        Ok(match row {
            None => Finished::Lost,
            Some((at_ms, Some(period))) if at_ms >= self.now_ms.saturating_add(period) => {
                Finished::Done
            }
            Some(_) => Finished::Again,
        })
    }

    async fn remove(self, db: &mut Connection<'_>) -> Result<Finished, DbError> {
        if db.execute(&sql::REMOVE_GONE, &self.named).await? == 1 {
            return Ok(Finished::Done);
        }
        let stays = db.execute(&sql::REMOVE_STAYS, &self.named).await? == 1;
        Ok(if stays {
            Finished::Again
        } else {
            Finished::Lost
        })
    }
}
