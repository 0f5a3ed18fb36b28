//! Enqueueing of jobs.

use futures_util::future::BoxFuture;
use grip_db::{Column, Connection, DbError, Value};

use super::{MOST_JOBS, Queue, topic};
use crate::{BadJob, NewJob, job, sql};

/// Jobs of one statement, so that none grows without bound.
const BATCH_JOBS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;
/// How often work is tried again that was undone because others were in its way.
const CONFLICTS: usize = 3;

impl Queue {
    /// Asks for jobs, all or none, and says how many of them are new; see [`NewJob`].
    pub async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<usize, DbError> {
        let mut tries = 1;
        loop {
            let (queue, jobs) = (self.clone(), jobs.clone());
            let asked = self
                .inner
                .db
                .write(|mut db| Box::pin(async move { queue.enqueue_in(&mut db, jobs).await }));
            match asked.await {
                Err(DbError::Conflict(_)) if tries < CONFLICTS => tries += 1,
                asked => return asked,
            }
        }
    }

    /// Like [`Queue::enqueue`], as a part of the caller's transaction.
    pub fn enqueue_in<'a>(
        &'a self,
        db: &'a mut Connection<'_>,
        jobs: Vec<NewJob>,
    ) -> BoxFuture<'a, Result<usize, DbError>> {
        Box::pin(async move {
            let jobs = job::sorted(jobs)?;
            self.refuse_full(&jobs)?;
            let (revived, plain): (Vec<_>, Vec<_>) = jobs.iter().partition(|job| job.revive);
            let mut new = 0;
            for batch in batches(&revived) {
                new += self.ask(db, batch, true).await?;
            }
            for batch in batches(&plain) {
                new += self.ask(db, batch, false).await?;
            }
            let mut kinds: Vec<&str> = jobs.iter().map(|job| job.kind.as_str()).collect();
            kinds.dedup();
            for kind in kinds {
                db.notify(&topic(kind)).await?;
            }
            Ok(new)
        })
    }

    /// Those of the keys that no job of the kind has, whatever its state, as a part of the caller's
    /// transaction.
    pub async fn missing_in(
        &self,
        db: &mut Connection<'_>,
        kind: &str,
        keys: Vec<String>,
    ) -> Result<Vec<String>, DbError> {
        let values = [kind.into(), Value::Texts(keys)];
        let missing: Vec<(String,)> = db.fetch_all(&sql::MISSING, &values).await?;
        Ok(missing.into_iter().map(|(key,)| key).collect())
    }

    fn refuse_full(&self, jobs: &[NewJob]) -> Result<(), BadJob> {
        let full = jobs
            .iter()
            .find(|job| self.inner.sampler.is_full(&job.kind));
        full.map_or(Ok(()), |job| {
            Err(BadJob::Full {
                kind: job.kind.clone(),
                most: MOST_JOBS,
            })
        })
    }

    async fn ask(
        &self,
        db: &mut Connection<'_>,
        jobs: &[&NewJob],
        revive: bool,
    ) -> Result<usize, DbError> {
        let now = self.inner.db.now_ms();
        let texts = |text: fn(&NewJob) -> &String| {
            Column::Texts(jobs.iter().map(|job| text(job).clone()).collect())
        };
        let columns = [
            texts(|job| &job.kind),
            texts(|job| &job.key),
            texts(|job| &job.payload),
            Column::Ints(jobs.iter().map(|job| job.due(now)).collect()),
            Column::MaybeInts(jobs.iter().map(|job| job.period_ms()).collect()),
            texts(|job| &job.capability),
        ];
        let values = [Value::Int(now), Value::Int(revive.into())];
        let asked: Vec<(i64,)> = db.fetch_rows(&sql::ENQUEUE, &columns, &values).await?;
        Ok(asked.iter().filter(|(asked,)| *asked == 0).count())
    }
}

/// Parts of at most so many jobs and bytes.
fn batches<'a, 'j>(jobs: &'a [&'j NewJob]) -> Vec<&'a [&'j NewJob]> {
    let (mut batches, mut rest) = (Vec::new(), jobs);
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |job: &&&NewJob| {
            bytes += job.bytes();
            bytes <= BATCH_BYTES
        };
        let many = rest.iter().take(BATCH_JOBS).take_while(fits).count();
        let (batch, others) = rest.split_at(many.max(1));
        batches.push(batch);
        rest = others;
    }
    batches
}
