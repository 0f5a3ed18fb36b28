//! Errors of a backfill.

use std::{
    io,
    path::{Path, PathBuf},
};

use grip_db::DbError;
use grip_tasks::{JoinError, JoinHandle};

use super::{OpenFile, lines::ReadError};

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

/// Why the reading ended.
pub(super) async fn ended(
    thread: JoinHandle<Result<(), ReadError>>,
    open_file: &OpenFile,
) -> Result<(), BackfillError> {
    let path = open_file.path.clone();
    let lines = open_file.progress.lines;
    let ended = thread.await.map_err(|error| stopped(&path, &error))?;
    ended.map_err(|why| match why {
        ReadError::Truncated => BackfillError::Truncated { path, lines },
        ReadError::Damaged(why) => BackfillError::Damaged { path, lines, why },
        ReadError::Bomb(most) => BackfillError::Bomb { path, most },
        ReadError::Io(source) => BackfillError::Open { path, source },
    })
}

pub(super) fn stopped(path: &Path, error: &JoinError) -> BackfillError {
    tracing::debug!(%error, "reading a file of events was stopped");
    let path = path.to_owned();
    BackfillError::Stopped { path }
}

pub(super) fn database(path: &Path, source: DbError) -> BackfillError {
    let path = path.to_owned();
    BackfillError::Database { path, source }
}
