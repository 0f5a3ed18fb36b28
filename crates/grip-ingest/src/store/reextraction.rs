//! Re-extraction of all rows in resumable steps.

use std::time::Duration;

use bytes::Bytes;
use grip_db::{Column, DbError, Statement, Value};
use grip_queue::Queue;

use super::{
    Store, events::accept_in, field_sql, long_work::Step, records::RecordKind, retry_on_conflict,
    sql,
};
use crate::{
    accept::{Arrival, Batch},
    extract::Push,
    fields::EVENT,
    webhook,
};

/// Rows of one part.
const AT_ONCE: i64 = 200;
/// Of what could not be read, which may be long.
const REJECTED_AT_ONCE: i64 = 20;

/// The rows that are extracted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reextraction {
    Events,
    Users,
    Repositories,
    /// What could not be read, which newer rules may be able to.
    Rejected,
}

impl Reextraction {
    pub(crate) const ALL: [Self; 4] = [
        Self::Events,
        Self::Users,
        Self::Repositories,
        Self::Rejected,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Users => "users",
            Self::Repositories => "repositories",
            Self::Rejected => "rejected",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|work| work.name() == name)
    }
}

impl Store {
    /// Does the next part; says whether it was the last.
    pub(crate) async fn reextract_step(
        &self,
        work: Reextraction,
        queue: &Queue,
        live_for: Duration,
    ) -> Result<bool, DbError> {
        let place = self.work_cursor(work.name()).await?;
        match work {
            Reextraction::Events => self.reextract_events(place).await,
            Reextraction::Users => self.reextract_records(RecordKind::User, work, place).await,
            Reextraction::Repositories => {
                self.reextract_records(RecordKind::Repository, work, place)
                    .await
            }
            Reextraction::Rejected => self.read_rejected(place, queue, live_for).await,
        }
    }

    async fn reextract_events(&self, place: String) -> Result<bool, DbError> {
        let values = [place.clone().into(), AT_ONCE.into()];
        let rows: Vec<(String, String, i64)> = self.db.fetch_all(&sql::RAW_EVENTS, &values).await?;
        let total = rows.len();
        let last = rows.last().map_or(place, |(id, ..)| id.clone());
        let read: Vec<_> = rows
            .into_iter()
            .filter_map(|(id, raw, at)| Some((Push::reread(&id, &raw).ok()?, at)))
            .collect();
        let ids = read.iter().map(|(push, _)| push.id.clone()).collect();
        let seen = read.iter().map(|(_, at)| *at).collect();
        let cells: Vec<_> = read.iter().map(|(push, _)| push.cells()).collect();
        let mut columns = vec![Column::Texts(ids), Column::Ints(seen)];
        columns.extend(field_sql::columns(EVENT, &cells));
        let step = Step {
            place: last,
            done: cells.len(),
            failed: total - cells.len(),
            is_last: (total as i64) < AT_ONCE,
        };
        self.write_step(Reextraction::Events, &field_sql::REDO_EVENTS, columns, step)
            .await
    }

    async fn reextract_records(
        &self,
        record_kind: RecordKind,
        work: Reextraction,
        place: String,
    ) -> Result<bool, DbError> {
        let (fields, rows) = (record_kind.fields(), record_kind.raw());
        let after: i64 = place.parse().unwrap_or(0);
        let values = [after.into(), AT_ONCE.into()];
        let rows: Vec<(i64, String, i64)> = self.db.fetch_all(rows, &values).await?;
        let total = rows.len();
        let last = rows.last().map_or(place, |(id, ..)| id.to_string());
        let records: Vec<_> = rows
            .into_iter()
            .filter_map(|(id, raw, at)| Some((record_kind.read(raw.as_bytes()).ok()?, id, at)))
            .filter(|(record, id, _)| record.id == *id)
            .collect();
        let ids = records.iter().map(|(_, id, _)| *id).collect();
        let seen = records.iter().map(|(.., at)| *at).collect();
        let unfit = records.iter().map(|(record, ..)| field_sql::unfit(record));
        let cells: Vec<_> = records
            .iter()
            .map(|(record, ..)| record.cells[1..].to_vec())
            .collect();
        let mut columns = vec![Column::Ints(ids), Column::Ints(seen)];
        columns.extend(field_sql::columns(&fields[1..], &cells));
        columns.push(Column::MaybeTexts(unfit.collect()));
        let step = Step {
            place: last,
            done: cells.len(),
            failed: total - cells.len(),
            is_last: (total as i64) < AT_ONCE,
        };
        self.write_step(work, record_kind.reextract(), columns, step)
            .await
    }

    async fn write_step(
        &self,
        work: Reextraction,
        statement: &'static Statement,
        columns: Vec<Column>,
        step: Step,
    ) -> Result<bool, DbError> {
        let (now, is_last) = (self.now_ms(), step.is_last);
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    if !columns[0].is_empty() {
                        db.execute_rows(statement, &columns, &[now.into()]).await?;
                    }
                    step.note(&mut db, work.name(), now).await
                })
            })
            .await?;
        Ok(is_last)
    }

    /// Takes in what can be read by now.
    async fn read_rejected(
        &self,
        place: String,
        queue: &Queue,
        live_for: Duration,
    ) -> Result<bool, DbError> {
        let values = [place.clone().into(), REJECTED_AT_ONCE.into()];
        let rows: Vec<(String, String, String, i64, Option<String>)> =
            self.db.fetch_all(&sql::REJECTED, &values).await?;
        let (now, total) = (self.now_ms(), rows.len());
        let last = rows.last().map_or(place, |(digest, ..)| digest.clone());
        let mut read = Vec::new();
        for (digest, source, raw, bytes, delivery_id) in rows {
            let (is_whole, body) = (i64::try_from(raw.len()) == Ok(bytes), Bytes::from(raw));
            let arrival = match delivery_id.clone() {
                Some(id) => Arrival::Delivery { id, body },
                None => Arrival::Event(body),
            };
            let batch = Batch::read(&[arrival]);
            if is_whole && batch.rejected.is_empty() {
                read.push((digest, source, delivery_id, std::sync::Arc::new(batch)));
            }
        }
        let is_last = (total as i64) < REJECTED_AT_ONCE;
        retry_on_conflict(|| {
            let (queue, read) = (queue.clone(), read.clone());
            let step = Step {
                place: last.clone(),
                done: read.len(),
                failed: total - read.len(),
                is_last,
            };
            self.db.write(move |mut db| {
                Box::pin(async move {
                    for (digest, source, delivery_id, batch) in read {
                        accept_in(&mut db, &queue, &source, &batch, live_for).await?;
                        if let Some(id) = delivery_id {
                            // From now on it came before.
                            let taken = [id.into(), "push".into(), now.into()];
                            db.execute(&webhook::sql::ADD_DELIVERY, &taken).await?;
                        }
                        let values = [Value::Texts(vec![digest])];
                        db.execute(&sql::FORGET_REJECTED, &values).await?;
                    }
                    step.note(&mut db, Reextraction::Rejected.name(), now).await
                })
            })
        })
        .await?;
        Ok(is_last)
    }
}
