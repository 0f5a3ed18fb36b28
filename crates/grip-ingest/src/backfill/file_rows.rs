//! Rows of the files: progress, and the gaps they close.

use std::sync::Arc;

use grip_db::{DbError, Value};

use super::{
    Backfill, FileDone, FileProgress, OpenFile, coverage,
    error::{BackfillError, database},
    parse::{Step, join},
};
use crate::store::{accept_in, retry_on_conflict};

/// Files whose times are put together.
const MOST_FILES: i64 = 100_000;

grip_db::statements! {
    pub(crate) mod sql {
        ADD_FILE = "INSERT INTO ingest_files (fingerprint, name, bytes, began_at, updated_at) \
                    VALUES ($1, $2, $3, $4, $4) ON CONFLICT (fingerprint) DO NOTHING";
        FILE = "SELECT lines, events, rejected, first_at, last_at, finished_at \
                FROM ingest_files WHERE fingerprint = $1";
        // $fingerprint, $lines before, $lines, $events more, $rejected more, $first, $last, $now
        STEP_FILE = "UPDATE ingest_files SET lines = $3, events = events + $4, \
                     rejected = rejected + $5, first_at = $6, last_at = $7, updated_at = $8 \
                     WHERE fingerprint = $1 AND lines = $2 AND finished_at IS NULL";
        // $fingerprint, $name, $first, $last, $now
        FINISH_FILE = "UPDATE ingest_files SET name = $2, first_at = $3, last_at = $4, \
                       updated_at = $5, finished_at = $5 \
                       WHERE fingerprint = $1 AND finished_at IS NULL";
        COVERED = "SELECT first_at, last_at FROM ingest_files \
                   WHERE finished_at IS NOT NULL AND first_at IS NOT NULL \
                   ORDER BY finished_at DESC LIMIT $1";
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FileRow {
    pub(super) lines: i64,
    pub(super) events: i64,
    pub(super) rejected: i64,
    pub(super) first_at: Option<i64>,
    pub(super) last_at: Option<i64>,
    pub(super) finished_at: Option<i64>,
}

grip_db::from_row!(FileRow {
    lines,
    events,
    rejected,
    first_at,
    last_at,
    finished_at
});

impl Backfill {
    pub(super) async fn row(
        &self,
        fingerprint: &str,
        name: &str,
        bytes: u64,
    ) -> Result<FileRow, DbError> {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let (fingerprint, name) = (fingerprint.to_owned(), name.to_owned());
        let now = self.store.now_ms();
        self.store
            .db()
            .write(move |mut db| {
                Box::pin(async move {
                    let key: Value = fingerprint.into();
                    let values = [key.clone(), name.into(), bytes.into(), now.into()];
                    db.execute(&sql::ADD_FILE, &values).await?;
                    db.fetch_one(&sql::FILE, &[key]).await
                })
            })
            .await
    }

    /// Keeps what a step brought, and how far the file was read.
    pub(super) async fn keep(
        &self,
        open_file: &mut OpenFile,
        step: Step,
    ) -> Result<(), BackfillError> {
        let before = open_file.row;
        let mut row = before;
        row.lines = i64::try_from(step.lines).unwrap_or(i64::MAX);
        let events = i64::try_from(step.events).unwrap_or(i64::MAX);
        let rejected = i64::try_from(step.rejected).unwrap_or(i64::MAX);
        row.events += events;
        row.rejected += rejected;
        if let Some(span) = step.span {
            let (first, last) = join(before.first_at.zip(before.last_at), span);
            (row.first_at, row.last_at) = (Some(first), Some(last));
        }
        let values: Arc<[Value]> = Arc::new([
            open_file.fingerprint.clone().into(),
            before.lines.into(),
            row.lines.into(),
            events.into(),
            rejected.into(),
            row.first_at.into(),
            row.last_at.into(),
            self.store.now_ms().into(),
        ]);
        let batch = Arc::new(step.batch);
        let source = format!("file {}", open_file.name);
        let kept = retry_on_conflict(|| {
            let (queue, live_for) = (self.queue.clone(), self.live_for);
            let (batch, values, source) = (batch.clone(), values.clone(), source.clone());
            self.store.db().write(move |mut db| {
                Box::pin(async move {
                    let kept = accept_in(&mut db, &queue, &source, &batch, live_for).await?;
                    match db.execute(&sql::STEP_FILE, &values).await? {
                        0 => Err(DbError::Aborted),
                        _ => Ok(kept),
                    }
                })
            })
        });
        let kept = kept.await.map_err(|error| match error {
            DbError::Aborted => BackfillError::Busy {
                path: open_file.path.clone(),
            },
            error => database(&open_file.path, error),
        })?;
        open_file.row = row;
        let FileProgress { accepted, .. } = &mut open_file.progress;
        accepted.new += kept.new;
        accepted.known += kept.known;
        accepted.other += kept.other;
        accepted.rejected += kept.rejected;
        open_file.progress.lines = step.lines;
        open_file.progress.bytes = step.used;
        Ok(())
    }

    /// Notes that a file was read to its end, and fills the holes that it covers.
    pub(super) async fn finish(
        &self,
        open_file: OpenFile,
        resumed_after: u64,
        was_known: bool,
    ) -> Result<FileDone, BackfillError> {
        let span = open_file.row.first_at.zip(open_file.row.last_at);
        let span = span.map(|(first, last)| coverage::of(&open_file.name, first, last));
        let finished = self.finish_row(&open_file, span, was_known).await;
        let gaps_closed = finished.map_err(|source| database(&open_file.path, source))?;
        Ok(FileDone {
            was_known,
            resumed_after,
            lines: open_file.progress.lines,
            accepted: open_file.progress.accepted,
            span,
            gaps_closed,
        })
    }

    async fn finish_row(
        &self,
        open_file: &OpenFile,
        span: Option<(i64, i64)>,
        was_known: bool,
    ) -> Result<u64, DbError> {
        let store = &self.store;
        if !was_known {
            let values: [Value; 5] = [
                open_file.fingerprint.clone().into(),
                open_file.name.clone().into(),
                span.map(|span| span.0).into(),
                span.map(|span| span.1).into(),
                store.now_ms().into(),
            ];
            let db = store.db();
            db.execute(&sql::FINISH_FILE, &values).await?;
        }
        let Some(span) = span else {
            return Ok(0);
        };
        let values = [MOST_FILES.into()];
        let others = store.db().fetch_all(&sql::COVERED, &values);
        let (from, to) = coverage::around(span, others.await?);
        store
            .close_gaps(from, to, &format!("file {}", open_file.name))
            .await
    }
}
