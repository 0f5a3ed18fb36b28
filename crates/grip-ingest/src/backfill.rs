//! Old events from files, as gharchive.org offers them: one event a line, an hour a file.
//!
//! Invariants:
//! - Memory does not grow with the file: a few steps of lines are there at a time, and no line is
//!   longer than its bound.
//! - What a step brought and how far the file was read are one transaction. After a kill it goes
//!   on with the first line that was not kept; a second reader of the same file gets an error.
//! - What cannot be read is kept aside with the reason. A file that is damaged or ends in the
//!   middle is an error, after all that could be read of it was kept, and fills no hole.

mod coverage;
mod error;
mod file_rows;
mod lines;
mod parse;

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::Duration,
};

use grip_db::Db;
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc::{Receiver, channel};

pub use self::error::BackfillError;
use self::{
    error::{database, ended, stopped},
    file_rows::FileRow,
    parse::{AHEAD, Step},
};
use crate::{accept::Accepted, store::Store};

/// A file whose first lines are all nonsense, so many of them, is no file of events.
const NONSENSE: u64 = 1_000;

/// Bytes at both ends of a file that distinguish it from others.
const ENDS: u64 = 64 << 10;

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

/// A file that is being read.
struct OpenFile {
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

    /// Reads a file from where it was left, and calls `progress` after every step.
    ///
    /// Cancel safe: what was reported is kept.
    pub async fn file(
        &self,
        path: &Path,
        mut progress: impl FnMut(&FileProgress) + Send,
    ) -> Result<FileDone, BackfillError> {
        let (mut open_file, file) = self.open(path).await?;
        let resumed_after = open_file.progress.lines;
        if open_file.row.finished_at.is_some() {
            open_file.progress.bytes = open_file.progress.total_bytes;
            progress(&open_file.progress);
            return self.finish(open_file, resumed_after, true).await;
        }
        progress(&open_file.progress);
        let (sender, mut steps) = channel(AHEAD);
        let thread = self.group.spawn_blocking("backfill", move || {
            parse::read(file, resumed_after, &sender)
        });
        self.keep_all(&mut open_file, &mut steps, &mut progress)
            .await?;
        ended(thread, &open_file).await?;
        self.finish(open_file, resumed_after, false).await
    }

    async fn open(&self, path: &Path) -> Result<(OpenFile, File), BackfillError> {
        let unreadable = |source| BackfillError::Open {
            path: path.to_owned(),
            source,
        };
        let opened = path.to_owned();
        let opening = self.group.spawn_blocking("backfill", move || {
            let mut file = File::open(opened)?;
            fingerprint(&mut file).map(|(fingerprint, bytes)| (file, fingerprint, bytes))
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
        let open_file = OpenFile {
            path: path.to_owned(),
            name,
            fingerprint,
            row,
            progress,
        };
        Ok((open_file, file))
    }

    async fn keep_all(
        &self,
        open_file: &mut OpenFile,
        steps: &mut Receiver<Step>,
        progress: &mut (impl FnMut(&FileProgress) + Send),
    ) -> Result<(), BackfillError> {
        let stop = self.group.token();
        loop {
            let Some(step) = stop.run_until_cancelled(steps.recv()).await else {
                let path = open_file.path.clone();
                return Err(BackfillError::Stopped { path });
            };
            let Some(step) = step else {
                return Ok(());
            };
            self.keep(open_file, step).await?;
            progress(&open_file.progress);
            let row = &open_file.row;
            if row.events == 0 && row.rejected.unsigned_abs() >= NONSENSE {
                return Err(BackfillError::NotEvents {
                    path: open_file.path.clone(),
                    lines: row.lines.unsigned_abs(),
                });
            }
        }
    }
}

/// Says the same for the same file, whatever it is called and wherever it lies: by its length
/// and its two ends.
fn fingerprint(file: &mut File) -> io::Result<(String, u64)> {
    let bytes = file.metadata()?.len();
    let mut hash = Sha256::new_with_prefix(bytes.to_be_bytes());
    for start in [0, bytes.saturating_sub(ENDS)] {
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        file.by_ref().take(ENDS).read_to_end(&mut end)?;
        hash.update(&end);
    }
    file.seek(SeekFrom::Start(0))?;
    Ok((faster_hex::hex_string(&hash.finalize()), bytes))
}

#[cfg(test)]
mod tests;
