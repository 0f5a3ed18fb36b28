//! The embedded database: one SQLite file.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use sqlx::{
    ConnectOptions as _, Connection as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::time;

use super::{Db, Pool, Status, assemble, migrations};
use crate::{
    DbError, OpenError,
    clock::{Clock, system_ms},
    writer::Writer,
};

/// How long a statement waits for a lock another process holds, such as a backup's.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Readers at a time; more wait for a connection.
const READERS: u32 = 4;

impl Db {
    pub(crate) fn open_with<'a>(
        path: &'a Path,
        busy_timeout: Duration,
    ) -> BoxFuture<'a, Result<Self, OpenError>> {
        Box::pin(async move {
            create_directory(path).await?;
            let options = options(path, busy_timeout);
            migrate(path, &options).await?;
            let failed = |source| OpenError::new(path.to_owned(), source);
            let readers = SqlitePoolOptions::new()
                .max_connections(READERS)
                .min_connections(0)
                .acquire_timeout(busy_timeout)
                .connect_with(options.clone().read_only(true).create_if_missing(false))
                .await
                .map_err(failed)?;
            let writer = Writer::connect(options).await.map_err(failed)?;
            let status = Arc::new(Status::new(Clock::new(system_ms())));
            let db = assemble(Pool::Sqlite(readers), writer, String::new(), status);
            db.watch_system_clock();
            Ok(db)
        })
    }

    fn watch_system_clock(&self) {
        let (status, stop) = (Arc::clone(&self.inner.status), self.inner.group.token());
        self.inner.group.spawn("clock", async move {
            let every = || stop.run_until_cancelled(time::sleep(Clock::EVERY));
            while every().await.is_some() {
                status.clock.set(system_ms());
            }
        });
    }
}

/// Writes what one read transaction sees into a new file.
pub(super) async fn copy(pool: &SqlitePool, path: &Path) -> Result<(), DbError> {
    let mut link = pool.acquire().await.map_err(DbError::of_file)?;
    let into = sqlx::query("VACUUM INTO ?").bind(path.to_string_lossy().into_owned());
    into.execute(&mut *link).await.map_err(DbError::of_file)?;
    Ok(())
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

pub(super) fn options(path: &Path, busy_timeout: Duration) -> SqliteConnectOptions {
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
    let outcome = migrations::sqlite()
        .run_direct(None, &mut connection, false)
        .await;
    connection.close().await.map_err(failed)?;
    outcome.map_err(|source| OpenError::migration(path, source))
}
