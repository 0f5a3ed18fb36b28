//! The lists that are read again and again, and the holes in them.

use grip_db::{Connection, DbError, Value};
use grip_queue::{Lease, NewJob, Queue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Store, finish_in, sql};

/// What is known about a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SourceRow {
    pub(crate) source: String,
    pub(crate) etag: Option<String>,
    pub(crate) poll_interval_ms: Option<i64>,
    pub(crate) recent: String,
    pub(crate) newest_id: Option<String>,
    pub(crate) newest_at: Option<i64>,
    pub(crate) polled_at: Option<i64>,
    pub(crate) changed_at: Option<i64>,
    pub(crate) polls: i64,
    pub(crate) gaps: i64,
}

grip_db::from_row!(SourceRow {
    source,
    etag,
    poll_interval_ms,
    recent,
    newest_id,
    newest_at,
    polled_at,
    changed_at,
    polls,
    gaps,
});

/// What a list is like after it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    Unchanged,
    Changed {
        etag: Option<String>,
        poll_interval_ms: Option<i64>,
        recent: Vec<String>,
        newest: Option<(String, Option<i64>)>,
        gap: Option<Hole>,
    },
}

/// Something may have happened that we did not see, after one event and before another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Gap {
    pub id: i64,
    pub source: String,
    /// The latest event that was seen before; none where the list was empty.
    pub after_id: Option<String>,
    pub after_at: Option<i64>,
    /// The oldest event that was seen again.
    pub before_id: Option<String>,
    pub before_at: Option<i64>,
    pub found_at: i64,
    pub closed_at: Option<i64>,
    pub closed_by: Option<String>,
}

grip_db::from_row!(Gap {
    id,
    source,
    after_id,
    after_at,
    before_id,
    before_at,
    found_at,
    closed_at,
    closed_by,
});

/// A hole before it is a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) after: Option<(String, Option<i64>)>,
    pub(crate) before: Option<(String, Option<i64>)>,
}

impl Store {
    /// Adds a source; `job` is asked for now if it is new, and otherwise within its period.
    pub(crate) async fn add_source(
        &self,
        queue: &Queue,
        source: &str,
        job: NewJob,
    ) -> Result<(), DbError> {
        let (queue, source, now) = (queue.clone(), source.to_owned(), self.now_ms());
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let is_new = db.execute(&sql::ADD_SOURCE, &[source.into()]).await? == 1;
                    let period = job.period.unwrap_or_default().as_millis();
                    let later = now.saturating_add(i64::try_from(period).unwrap_or(i64::MAX));
                    let job = if is_new { job } else { job.due_ms(later) };
                    queue.enqueue_in(&mut db, vec![job]).await?;
                    Ok(())
                })
            })
            .await
    }

    pub(crate) async fn source(&self, source: &str) -> Result<Option<SourceRow>, DbError> {
        let values = [source.into()];
        self.db.fetch_optional(&sql::SOURCE, &values).await
    }

    pub(crate) async fn sources(&self) -> Result<Vec<SourceRow>, DbError> {
        self.db.fetch_all(&sql::SOURCES, &[]).await
    }

    pub(crate) async fn gaps(
        &self,
        only_open: bool,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Gap>, DbError> {
        let statement = if only_open {
            &sql::OPEN_GAPS
        } else {
            &sql::GAPS
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = [after.into(), limit.into()];
        self.db.fetch_all(statement, &values).await
    }

    /// Everything between two moments is known now: the holes within are filled. Says how many.
    pub(crate) async fn close_gaps(
        &self,
        from_ms: i64,
        to_ms: i64,
        by: &str,
    ) -> Result<u64, DbError> {
        let values: [Value; 4] = [
            from_ms.into(),
            to_ms.into(),
            self.now_ms().into(),
            by.into(),
        ];
        self.db.execute(&sql::CLOSE_GAPS, &values).await
    }
}

/// Notes what a list is like, asks for the next look and ends this one, as a part of the caller's
/// transaction. With a lease that was lost, all of it is given up.
pub(crate) async fn end_poll_in(
    db: &mut Connection<'_>,
    queue: &Queue,
    lease: &Lease,
    polled: Polled,
    next: NewJob,
) -> Result<(), DbError> {
    let (source, now) = (&lease.key, queue.db().now_ms());
    match polled {
        Polled::Unchanged => {
            db.execute(&sql::UNCHANGED, &[source.into(), now.into()])
                .await?;
        }
        Polled::Changed {
            etag,
            poll_interval_ms,
            recent,
            newest,
            gap,
        } => {
            let (newest_id, newest_at) = split(newest);
            let values = [
                source.into(),
                now.into(),
                etag.into(),
                poll_interval_ms.into(),
                serde_json::Value::from(recent).to_string().into(),
                newest_id.into(),
                newest_at.into(),
                Value::Int(gap.is_some().into()),
            ];
            db.execute(&sql::CHANGED, &values).await?;
            if let Some(gap) = gap {
                add_gap(db, source, gap, now).await?;
            }
        }
    }
    queue.enqueue_in(db, vec![next]).await?;
    finish_in(db, queue, lease).await
}

async fn add_gap(
    db: &mut Connection<'_>,
    source: &str,
    gap: Hole,
    now: i64,
) -> Result<(), DbError> {
    let (after_id, after_at) = split(gap.after);
    let (before_id, before_at) = split(gap.before);
    tracing::warn!(
        source,
        ?after_at,
        ?before_at,
        "events may have been missed: the list does not reach back to what was seen before"
    );
    let values = [
        source.into(),
        after_id.into(),
        after_at.into(),
        before_id.into(),
        before_at.into(),
        now.into(),
    ];
    db.execute(&sql::ADD_GAP, &values).await?;
    Ok(())
}

fn split(event: Option<(String, Option<i64>)>) -> (Option<String>, Option<i64>) {
    event.map_or((None, None), |(id, at)| (Some(id), at))
}
