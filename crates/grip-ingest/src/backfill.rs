//! Old events from files, as gharchive.org offers them: one event a line, an hour a file.
//!
//! Invariants:
//! - Memory does not grow with the file: a few steps of lines are there at a time, and no line is
//!   longer than its bound.
//! - What a step brought and how far the file was read are one transaction. After a kill it goes
//!   on with the first line that was not kept; whoever reads the same file meanwhile is told.
//! - What cannot be read is kept aside with the reason. A file that is damaged or ends in the
//!   middle is told of, after all that could be read of it was kept, and fills no hole.

mod coverage;
mod fingerprint;
mod lines;
mod reading;

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use grip_db::{Db, DbError, Value};
use grip_queue::Queue;
use grip_tasks::{JoinError, JoinHandle, TaskGroup};
use serde::Serialize;
use tokio::sync::mpsc::{Receiver, channel};

use self::{
    lines::ReadError,
    reading::{AHEAD, Step, join},
};
use crate::{
    accept::Accepted,
    store::{Store, accept_in, patiently},
};

/// A file whose first lines are all nonsense, so many of them, is no file of events.
const NONSENSE: u64 = 1_000;
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

/// Reads files of old events.
#[derive(Clone)]
pub struct Backfill {
    store: Store,
    queue: Queue,
    live_for: Duration,
    group: TaskGroup,
}

/// How far a file was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileProgress {
    /// Of the file as it lies there, packed or not.
    pub bytes: u64,
    pub total_bytes: u64,
    pub lines: u64,
    /// What became of the lines that were read this time.
    pub accepted: Accepted,
}

/// A file that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileDone {
    /// It was read before: nothing was done.
    pub was_known: bool,
    /// Lines that were read another time, before a stop.
    pub resumed_after: u64,
    pub lines: u64,
    /// What became of the lines that were read this time.
    pub accepted: Accepted,
    /// The time that the file covers, in milliseconds since 1970; none if it has no events.
    pub span: Option<(i64, i64)>,
    /// Holes that are filled now, by this file and its neighbours.
    pub gaps_closed: u64,
}

/// Why a file was not read to its end. What was read before that is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackfillError {
    #[error("{path} cannot be read")]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{path} ends in the middle, after {lines} whole lines: fetch it again")]
    Truncated { path: PathBuf, lines: u64 },
    #[error("{path} is damaged after {lines} lines ({why}): fetch it again")]
    Damaged {
        path: PathBuf,
        lines: u64,
        why: String,
    },
    #[error("{path} unpacks to more than {most} bytes, which no file of events does")]
    Bomb { path: PathBuf, most: u64 },
    #[error("{path} is no file of events: none of its first {lines} lines is one")]
    NotEvents { path: PathBuf, lines: u64 },
    #[error("{path} is being read by somebody else")]
    Busy { path: PathBuf },
    #[error("reading {path} was stopped; it goes on from there next time")]
    Stopped { path: PathBuf },
    #[error("what {path} holds cannot be kept")]
    Database {
        path: PathBuf,
        #[source]
        source: DbError,
    },
}

#[derive(Clone, Copy, Debug, sqlx::FromRow)]
struct FileRow {
    lines: i64,
    events: i64,
    rejected: i64,
    first_at: Option<i64>,
    last_at: Option<i64>,
    finished_at: Option<i64>,
}

/// A file that is being read.
struct Reading {
    path: PathBuf,
    name: String,
    fingerprint: String,
    row: FileRow,
    progress: FileProgress,
}

impl Backfill {
    /// `live_for`: older pushes wake nobody.
    pub fn new(db: Db, queue: Queue, live_for: Duration, group: TaskGroup) -> Self {
        Self {
            store: Store::new(db),
            queue,
            live_for,
            group,
        }
    }

    /// Reads a file from where it was left, and tells `progress` after every step.
    ///
    /// Cancel safe: what was told of is kept.
    pub async fn file(
        &self,
        path: &Path,
        mut progress: impl FnMut(&FileProgress) + Send,
    ) -> Result<FileDone, BackfillError> {
        let (mut reading, file) = self.open(path).await?;
        let resumed_after = reading.progress.lines;
        if reading.row.finished_at.is_some() {
            reading.progress.bytes = reading.progress.total_bytes;
            progress(&reading.progress);
            return self.finish(reading, resumed_after, true).await;
        }
        progress(&reading.progress);
        let (sender, mut steps) = channel(AHEAD);
        let thread = self.group.spawn_blocking("backfill", move || {
            reading::read(file, resumed_after, &sender)
        });
        self.keep_all(&mut reading, &mut steps, &mut progress)
            .await?;
        ended(thread, &reading).await?;
        self.finish(reading, resumed_after, false).await
    }

    async fn open(&self, path: &Path) -> Result<(Reading, File), BackfillError> {
        let unreadable = |source| BackfillError::Open {
            path: path.to_owned(),
            source,
        };
        let opened = path.to_owned();
        let opening = self.group.spawn_blocking("backfill", move || {
            let mut file = File::open(opened)?;
            fingerprint::of(&mut file).map(|(fingerprint, bytes)| (file, fingerprint, bytes))
        });
        let opened = opening.await.map_err(|error| stopped(path, &error))?;
        let (file, fingerprint, total_bytes) = opened.map_err(unreadable)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().filter(|c| !c.is_control()).take(255).collect();
        let row = self.row(&fingerprint, &name, total_bytes).await;
        let row = row.map_err(|source| database(path, source))?;
        let progress = FileProgress {
            total_bytes,
            lines: row.lines.unsigned_abs(),
            ..FileProgress::default()
        };
        let reading = Reading {
            path: path.to_owned(),
            name,
            fingerprint,
            row,
            progress,
        };
        Ok((reading, file))
    }

    async fn row(&self, fingerprint: &str, name: &str, bytes: u64) -> Result<FileRow, DbError> {
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

    async fn keep_all(
        &self,
        reading: &mut Reading,
        steps: &mut Receiver<Step>,
        progress: &mut (impl FnMut(&FileProgress) + Send),
    ) -> Result<(), BackfillError> {
        let stop = self.group.token();
        loop {
            let Some(step) = stop.run_until_cancelled(steps.recv()).await else {
                let path = reading.path.clone();
                return Err(BackfillError::Stopped { path });
            };
            let Some(step) = step else {
                return Ok(());
            };
            self.keep(reading, step).await?;
            progress(&reading.progress);
            let row = &reading.row;
            if row.events == 0 && row.rejected.unsigned_abs() >= NONSENSE {
                return Err(BackfillError::NotEvents {
                    path: reading.path.clone(),
                    lines: row.lines.unsigned_abs(),
                });
            }
        }
    }

    /// Keeps what a step brought, and how far the file was read.
    async fn keep(&self, reading: &mut Reading, step: Step) -> Result<(), BackfillError> {
        let before = reading.row;
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
            reading.fingerprint.clone().into(),
            before.lines.into(),
            row.lines.into(),
            events.into(),
            rejected.into(),
            row.first_at.into(),
            row.last_at.into(),
            self.store.now_ms().into(),
        ]);
        let batch = Arc::new(step.batch);
        let source = format!("file {}", reading.name);
        let kept = patiently(|| {
            let (queue, live_for) = (self.queue.clone(), self.live_for);
            let (batch, values, source) = (batch.clone(), values.clone(), source.clone());
            self.store.db().write(move |mut db| {
                Box::pin(async move {
                    let kept = accept_in(&mut db, &queue, &source, &batch, live_for).await?;
                    match db.execute(&sql::STEP_FILE, &values).await? {
                        0 => Err(DbError::GivenUp),
                        _ => Ok(kept),
                    }
                })
            })
        });
        let kept = kept.await.map_err(|error| match error {
            DbError::GivenUp => BackfillError::Busy {
                path: reading.path.clone(),
            },
            error => database(&reading.path, error),
        })?;
        reading.row = row;
        let FileProgress { accepted, .. } = &mut reading.progress;
        accepted.new += kept.new;
        accepted.known += kept.known;
        accepted.other += kept.other;
        accepted.rejected += kept.rejected;
        reading.progress.lines = step.lines;
        reading.progress.bytes = step.used;
        Ok(())
    }

    /// Notes that a file was read to its end, and fills the holes that it covers.
    async fn finish(
        &self,
        reading: Reading,
        resumed_after: u64,
        was_known: bool,
    ) -> Result<FileDone, BackfillError> {
        let span = reading.row.first_at.zip(reading.row.last_at);
        let span = span.map(|(first, last)| coverage::of(&reading.name, first, last));
        let finished = self.finish_row(&reading, span, was_known).await;
        let gaps_closed = finished.map_err(|source| database(&reading.path, source))?;
        Ok(FileDone {
            was_known,
            resumed_after,
            lines: reading.progress.lines,
            accepted: reading.progress.accepted,
            span,
            gaps_closed,
        })
    }

    async fn finish_row(
        &self,
        reading: &Reading,
        span: Option<(i64, i64)>,
        was_known: bool,
    ) -> Result<u64, DbError> {
        let store = &self.store;
        if !was_known {
            let values: [Value; 5] = [
                reading.fingerprint.clone().into(),
                reading.name.clone().into(),
                span.map(|span| span.0).into(),
                span.map(|span| span.1).into(),
                store.now_ms().into(),
            ];
            let db = store.db();
            db.write_one(|mut db| {
                Box::pin(async move { db.execute(&sql::FINISH_FILE, &values).await })
            })
            .await?;
        }
        let Some(span) = span else {
            return Ok(0);
        };
        let values = [MOST_FILES.into()];
        let others = store
            .db()
            .read(|mut db| Box::pin(async move { db.fetch_all(&sql::COVERED, &values).await }));
        let (from, to) = coverage::around(span, others.await?);
        store
            .close_gaps(from, to, &format!("file {}", reading.name))
            .await
    }
}

/// Why the reading ended.
async fn ended(
    thread: JoinHandle<Result<(), ReadError>>,
    reading: &Reading,
) -> Result<(), BackfillError> {
    let path = reading.path.clone();
    let lines = reading.progress.lines;
    let ended = thread.await.map_err(|error| stopped(&path, &error))?;
    ended.map_err(|why| match why {
        ReadError::Truncated => BackfillError::Truncated { path, lines },
        ReadError::Damaged(why) => BackfillError::Damaged { path, lines, why },
        ReadError::Bomb(most) => BackfillError::Bomb { path, most },
        ReadError::Io(source) => BackfillError::Open { path, source },
    })
}

fn stopped(path: &Path, error: &JoinError) -> BackfillError {
    tracing::debug!(%error, "reading a file of events was stopped");
    let path = path.to_owned();
    BackfillError::Stopped { path }
}

fn database(path: &Path, source: DbError) -> BackfillError {
    let path = path.to_owned();
    BackfillError::Database { path, source }
}

#[cfg(test)]
mod tests;
