//! The database handle: opening, reading, writing, closing.

mod file;
mod migrations;
mod rows;
mod server;
mod transaction;
mod transfer;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use grip_tasks::{CancellationToken, Ended, TaskGroup};
use parking_lot::Mutex;
use sqlx::SqlitePool;
use tokio::sync::watch;

pub(crate) use self::server::Host;
use self::server::pool::ConnectionPool;
pub use self::{
    rows::RowsError,
    server::{Fence, Server},
    transfer::RowsTaken,
};
use crate::{
    Connection, DbError, FromRows, OpenError, Statement, Value,
    clock::Clock,
    topics::Topics,
    work::Once,
    writer::{self, Reserved, Writer},
};

/// How long `close` waits for the commits under way: each can wait once for a foreign lock.
const CLOSE_GRACE: Duration = Duration::from_secs(15);
/// Longest time a piece of work may take, waiting for a connection included.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Told how much of a long copy is done, of how much.
pub type OnProgress<'a> = dyn FnMut(u64, u64) + Send + 'a;

/// The SQL state of the node: one SQLite file, or a Postgres server that many nodes may share.
///
/// Writes survive a crash once they are answered (SQLite: write-ahead log, `synchronous=FULL`).
/// Cheap to clone.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Pool,
    node: String,
    writer: writer::Handle,
    writer_stats: Arc<Mutex<WriterStats>>,
    topics: Arc<Topics>,
    status: Arc<Status>,
    group: TaskGroup,
}

/// The present state of the database, for all its users.
pub(crate) struct Status {
    pub(crate) clock: Clock,
    /// Why the database cannot be used at this moment; none if it can.
    pub(crate) outage: watch::Sender<Option<String>>,
    /// Another instance has our name; it is not ours again before the next start.
    pub(crate) name_taken: CancellationToken,
}

impl Status {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            outage: watch::Sender::new(None),
            name_taken: CancellationToken::new(),
        }
    }
}

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

enum Pool {
    /// Readers only; the one that writes is the writer's.
    Sqlite(SqlitePool),
    Postgres(Box<ConnectionPool>),
}

/// Where the database is.
#[derive(Clone, Debug)]
pub enum Location {
    File(PathBuf),
    Server(Server),
}

/// What the writer has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriterStats {
    /// Calls that were answered with success.
    pub applied_total: u64,
    pub commits_total: u64,
    pub failed_total: u64,
}

/// A place in the queue of the writer; given back on drop.
pub struct WritePermit(Reserved);

impl WritePermit {
    /// Queues the work at once, so that a lock may be held around this call; the future waits
    /// until it is on the disk.
    pub fn write<T, F>(self, work: F) -> impl Future<Output = Result<T, DbError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        self.0.request(work)
    }
}

impl Db {
    /// Opens the file, creating it and its directory where they are missing, and brings its
    /// schema up to date.
    pub async fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, file::BUSY_TIMEOUT).await
    }

    /// Opens whichever it is.
    pub async fn open_at(location: &Location) -> Result<Self, OpenError> {
        match location {
            Location::File(path) => Self::open(path).await,
            Location::Server(server) => Self::connect(server).await,
        }
    }

    pub fn engine(&self) -> Engine {
        match self.inner.pool {
            Pool::Sqlite(_) => Engine::Sqlite,
            Pool::Postgres(_) => Engine::Postgres,
        }
    }

    /// The name of this instance among those that share the database; empty for a file.
    pub fn node(&self) -> &str {
        &self.inner.node
    }

    /// Milliseconds since 1970, the same for all instances that share the database.
    pub fn now_ms(&self) -> i64 {
        self.inner.status.clock.now_ms()
    }

    /// Hears of `topic` after each commit whose work has told of it, in whichever instance. Also
    /// moves when something may have been missed, so a listener looks again rather than count.
    pub fn topic(&self, topic: &str) -> watch::Receiver<u64> {
        self.inner.topics.listen(topic)
    }

    pub fn writer_stats(&self) -> WriterStats {
        *self.inner.writer_stats.lock()
    }

    /// Why the database cannot be used at this moment; none if it can. A file is not watched.
    pub fn outage(&self) -> watch::Receiver<Option<String>> {
        self.inner.status.outage.subscribe()
    }

    /// Waits until another instance has taken our name, as it may when the server has lost sight
    /// of us; from then on everything fails with [`DbError::NameTaken`]. Never with a file.
    pub async fn name_taken(&self) {
        self.inner.status.name_taken.cancelled().await;
    }

    /// The length of the file; none for a server. Blocking.
    pub fn file_bytes(&self) -> Option<u64> {
        let Pool::Sqlite(pool) = &self.inner.pool else {
            return None;
        };
        let options = pool.connect_options();
        let metadata = std::fs::metadata(options.get_filename());
        metadata.ok().map(|metadata| metadata.len())
    }

    /// Writes a copy of what this instance has, as it is at this moment, while it is read and written: a
    /// file, or where the database is a server a directory of rows for [`Db::import_rows`]. The copy must
    /// not be there yet. While rows are written, `check_room` is asked now and then, and ends it by an error.
    pub async fn copy_to(
        &self,
        path: &Path,
        mut check_room: impl FnMut() -> io::Result<()> + Send,
    ) -> Result<(), RowsError> {
        match &self.inner.pool {
            Pool::Sqlite(pool) => Ok(file::copy(pool, path).await?),
            Pool::Postgres(pool) => rows::export(pool, path, self.node(), &mut check_room).await,
        }
    }

    /// Reads; each statement sees its own moment. Cancel safe.
    pub async fn read<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send,
    {
        let mut work = Once::new(work);
        let done = match &self.inner.pool {
            Pool::Sqlite(pool) => self.inner.read(pool, &mut work).await,
            Pool::Postgres(pool) => self.inner.run(pool, &mut work).await,
        };
        work.value(done)
    }

    /// Does the work in one transaction: all of it is on the disk when this returns, or nothing.
    ///
    /// A caller that stops waiting, or gets [`DbError::Unreachable`], cannot know which.
    pub async fn write<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        self.write_by(work, true).await
    }

    /// Like [`Db::write`], for work that is exactly one statement: it needs no transaction around
    /// it, unless the handle is fenced. Topics that it tells of are told by a second one.
    pub async fn write_one<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        self.write_by(work, false).await
    }

    async fn write_by<T, F>(&self, work: F, in_transaction: bool) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        match &self.inner.pool {
            Pool::Sqlite(_) => self.inner.writer.reserve().await?.request(work).await,
            Pool::Postgres(pool) => {
                let mut work = Once::new(work);
                let done = if in_transaction || pool.fence().is_some() {
                    self.inner.transact(pool, &mut work).await
                } else {
                    self.inner.run(pool, &mut work).await
                };
                work.value(done)
            }
        }
    }

    /// Like [`Db::write`], in the order of the requests on both engines. Concurrent requests share a
    /// commit. A caller that stops waiting does not take its work back: it may still be done.
    pub async fn write_in_order<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        self.write_permit().await?.write(work).await
    }

    /// The right to queue one piece of work for [`Db::write_in_order`] without waiting. Cancel
    /// safe.
    pub async fn write_permit(&self) -> Result<WritePermit, DbError> {
        self.inner.check_name()?;
        self.inner.writer.reserve().await.map(WritePermit)
    }

    /// Reads by one statement.
    pub async fn fetch_all<R: FromRows>(
        &self,
        statement: &'static Statement,
        values: &[Value],
    ) -> Result<Vec<R>, DbError> {
        let values = values.to_vec();
        self.read(move |mut db| Box::pin(async move { db.fetch_all(statement, &values).await }))
            .await
    }

    pub async fn fetch_optional<R: FromRows>(
        &self,
        statement: &'static Statement,
        values: &[Value],
    ) -> Result<Option<R>, DbError> {
        let values = values.to_vec();
        self.read(move |mut db| {
            Box::pin(async move { db.fetch_optional(statement, &values).await })
        })
        .await
    }

    /// For statements that always give a row.
    pub async fn fetch_one<R: FromRows>(
        &self,
        statement: &'static Statement,
        values: &[Value],
    ) -> Result<R, DbError> {
        let values = values.to_vec();
        self.read(move |mut db| Box::pin(async move { db.fetch_one(statement, &values).await }))
            .await
    }

    /// Writes by one statement, and says how many rows it changed.
    pub async fn execute(
        &self,
        statement: &'static Statement,
        values: &[Value],
    ) -> Result<u64, DbError> {
        let values = values.to_vec();
        self.write_one(move |mut db| Box::pin(async move { db.execute(statement, &values).await }))
            .await
    }

    /// Sets the clock forward or back, as the keeper of the server's clock might.
    #[cfg(any(test, feature = "testing"))]
    pub fn shift_clock_ms(&self, ms: i64) {
        self.inner.status.clock.shift(ms);
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) async fn prepare(
        &self,
        statement: &'static crate::Statement,
    ) -> Result<(), DbError> {
        self.read(|mut db| Box::pin(async move { db.prepare(statement).await }))
            .await
    }

    /// What runs and ran for the database itself.
    pub fn tasks(&self) -> Vec<grip_tasks::TaskStatus> {
        self.inner.group.status()
    }

    /// Finishes the writes under way and closes the database; later requests fail with
    /// [`DbError::Closed`].
    ///
    /// The tasks belong to the database and not to the node's groups, so that it can be closed
    /// last, when nobody writes any more.
    pub async fn close(&self) {
        if let Ended::Aborted { .. } = self.inner.group.shutdown(CLOSE_GRACE).await {
            tracing::warn!("the database writer was aborted: a commit did not end in time");
        }
        match &self.inner.pool {
            Pool::Sqlite(pool) => pool.close().await,
            Pool::Postgres(pool) => pool.close().await,
        }
    }
}

fn assemble(pool: Pool, writer: Writer, node: String, status: Arc<Status>) -> Db {
    let topics = Arc::<Topics>::default();
    let group = TaskGroup::new("db");
    let inner = Inner {
        pool,
        node,
        writer_stats: writer.stats(),
        writer: writer.start(Arc::clone(&topics), &group),
        topics,
        status,
        group,
    };
    Db {
        inner: Arc::new(inner),
    }
}

#[cfg(test)]
mod tests;
