//! The database as a whole.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use grip_tasks::{Ended, TaskGroup};
use sqlx::{
    ConnectOptions, Connection,
    migrate::Migrator,
    sqlite::{
        SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
    },
};

use crate::{
    Journal, OpenError,
    writer::{self, Counters, Writer},
};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

/// How long a statement waits for a lock another process holds, such as a backup's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Readers at a time; more wait for a connection.
const READERS: u32 = 4;
/// How long `close` waits for the commits under way: each can wait once for a foreign lock.
const CLOSE_GRACE: Duration = Duration::from_secs(15);

/// The SQL state of the node: one SQLite file.
///
/// Writes survive a crash once they are answered (write-ahead log, `synchronous=FULL`).
#[derive(Clone)]
pub struct Db {
    readers: SqlitePool,
    writer: writer::Handle,
    counters: Arc<Counters>,
    group: TaskGroup,
}

/// What the writer has done since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterStats {
    /// Calls that were answered with success.
    pub applied_total: u64,
    pub commits_total: u64,
    pub failed_total: u64,
}

impl Db {
    /// Opens the file, creating it and its directory where they are missing, and brings its
    /// schema up to date.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, BUSY_TIMEOUT).await
    }

    pub(crate) async fn open_with(path: &Path, busy_timeout: Duration) -> Result<Self, OpenError> {
        create_directory(path).await?;
        let options = options(path, busy_timeout);
        migrate(path, &options).await?;
        let failed = |source| OpenError::new(path.to_owned(), source);
        let writer = Writer::connect(options.clone()).await.map_err(failed)?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .min_connections(0)
            .acquire_timeout(busy_timeout)
            .connect_with(options.read_only(true).create_if_missing(false))
            .await
            .map_err(failed)?;
        let group = TaskGroup::new("db");
        let counters = writer.counters();
        Ok(Self {
            readers,
            writer: writer.start(&group),
            counters,
            group,
        })
    }

    /// Finishes the writes under way and closes the file; later calls fail with
    /// [`JournalError::Closed`](crate::JournalError::Closed).
    ///
    /// The task of the writer belongs to the database and not to the node's groups, so that it
    /// can be closed last, when nobody writes any more.
    pub async fn close(&self) {
        if let Ended::Aborted { .. } = self.group.shutdown(CLOSE_GRACE).await {
            tracing::warn!("the database writer was aborted: a commit did not end in time");
        }
        self.readers.close().await;
    }

    /// The purgatory's durable copy.
    pub fn journal(&self) -> Journal {
        Journal::new(self.readers.clone(), self.writer.clone())
    }

    pub fn writer_stats(&self) -> WriterStats {
        self.counters.read()
    }
}

async fn create_directory(path: &Path) -> Result<(), OpenError> {
    let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) else {
        return Ok(());
    };
    let failed = |source| OpenError::Directory {
        path: parent.to_owned(),
        source,
    };
    tokio::fs::create_dir_all(parent).await.map_err(failed)
}

fn options(path: &Path, busy_timeout: Duration) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(busy_timeout)
        .disable_statement_logging()
}

async fn migrate(path: &Path, options: &SqliteConnectOptions) -> Result<(), OpenError> {
    let path: PathBuf = path.to_owned();
    let failed = |source| OpenError::new(path.clone(), source);
    let mut connection = options.connect().await.map_err(failed)?;
    let outcome = MIGRATIONS.run_direct(None, &mut connection, false).await;
    connection.close().await.map_err(failed)?;
    outcome.map_err(|source| OpenError::migration(path, source))
}

#[cfg(test)]
mod tests;
