//! The database as a whole.

mod file;
mod server;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use grip_tasks::{Ended, TaskGroup};
use sqlx::{PgPool, SqlitePool};
use tokio::{sync::watch, time::timeout};

pub use self::server::Server;
use crate::{
    Connection, DbError, Journal, OpenError,
    clock::Clock,
    connection::Link,
    topics::Topics,
    writer::{self, Counters, Writer},
};

/// How long `close` waits for the commits under way: each can wait once for a foreign lock.
const CLOSE_GRACE: Duration = Duration::from_secs(15);
/// Longest time a piece of work may take, waiting for a connection included.
const PATIENCE: Duration = Duration::from_secs(30);

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
    counters: Arc<Counters>,
    topics: Arc<Topics>,
    clock: Arc<Clock>,
    group: TaskGroup,
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
    Postgres(PgPool),
}

/// Where the database is.
#[derive(Clone, Debug)]
pub enum Location {
    File(PathBuf),
    Server(Server),
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
        self.inner.clock.now_ms()
    }

    /// Hears of `topic` after each commit whose work has told of it, in whichever instance. Also
    /// moves when something may have been missed, so a listener looks again rather than count.
    pub fn topic(&self, topic: &str) -> watch::Receiver<u64> {
        self.inner.topics.listen(topic)
    }

    /// The purgatory's durable copy.
    pub fn journal(&self) -> Journal {
        Journal::new(self.clone())
    }

    pub fn writer_stats(&self) -> WriterStats {
        self.inner.counters.read()
    }

    /// Reads; each statement sees its own moment. Cancel safe.
    pub async fn read<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send,
    {
        let mut told = Vec::new();
        let reading = async {
            match &self.inner.pool {
                Pool::Sqlite(pool) => {
                    let mut link = pool.acquire().await.map_err(DbError::new)?;
                    work(Connection::new(Link::Sqlite(&mut link), &mut told)).await
                }
                Pool::Postgres(pool) => {
                    let mut link = pool.acquire().await.map_err(DbError::new)?;
                    work(Connection::new(Link::Postgres(&mut link), &mut told)).await
                }
            }
        };
        in_time(reading).await
    }

    /// Does the work in one transaction: all of it is on the disk when this returns, or nothing.
    ///
    /// A caller that stops waiting, or gets [`DbError::Unreachable`], cannot know which.
    pub async fn write<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        match &self.inner.pool {
            Pool::Sqlite(_) => self.inner.writer.call(work).await,
            Pool::Postgres(pool) => self.inner.transact(pool, work).await,
        }
    }

    /// Like [`Db::write`], for work that is exactly one statement: it needs no transaction around
    /// it. Topics that it tells of are told by a second one.
    pub async fn write_one<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        match &self.inner.pool {
            Pool::Sqlite(_) => self.inner.writer.call(work).await,
            Pool::Postgres(pool) => self.inner.run(pool, work).await,
        }
    }

    /// Like [`Db::write`], in the order of the calls on both engines.
    pub(crate) async fn write_in_order<T, F>(&self, work: F) -> Result<T, DbError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        self.inner.writer.call(work).await
    }

    /// Sets the clock forward or back, as whoever keeps the server's clock might.
    #[cfg(any(test, feature = "testing"))]
    pub fn shift_clock_ms(&self, ms: i64) {
        self.inner.clock.shift(ms);
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) async fn prepare(&self, statement: crate::Statement) -> Result<(), DbError> {
        self.read(|mut db| Box::pin(async move { db.prepare(statement).await }))
            .await
    }

    /// Finishes the writes under way and closes the database; later calls fail with
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

impl Inner {
    async fn run<T, F>(&self, pool: &PgPool, work: F) -> Result<T, DbError>
    where
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>>,
    {
        let mut told = Vec::new();
        let done = in_time(async {
            let mut link = pool.acquire().await.map_err(DbError::new)?;
            work(Connection::new(Link::Postgres(&mut link), &mut told)).await
        })
        .await?;
        self.tell(told);
        Ok(done)
    }

    async fn transact<T, F>(&self, pool: &PgPool, work: F) -> Result<T, DbError>
    where
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>>,
    {
        let mut told = Vec::new();
        let done = in_time(async {
            // Dropped before the commit, it is rolled back.
            let mut transaction = pool.begin().await.map_err(DbError::new)?;
            let done = work(Connection::new(Link::Postgres(&mut transaction), &mut told)).await?;
            transaction.commit().await.map_err(DbError::new)?;
            Ok(done)
        })
        .await?;
        self.tell(told);
        Ok(done)
    }

    fn tell(&self, topics: Vec<String>) {
        for topic in topics {
            self.topics.tell(&topic);
        }
    }
}

/// A server that does not answer holds nobody up for longer than this.
async fn in_time<T>(work: impl Future<Output = Result<T, DbError>>) -> Result<T, DbError> {
    timeout(PATIENCE, work)
        .await
        .unwrap_or(Err(DbError::Silent))
}

async fn assemble(
    pool: Pool,
    source: writer::Source,
    node: String,
    clock: Clock,
) -> Result<Db, sqlx::Error> {
    let topics = Arc::<Topics>::default();
    let writer = Writer::connect(source, Arc::clone(&topics)).await?;
    let group = TaskGroup::new("db");
    let inner = Inner {
        pool,
        node,
        counters: writer.counters(),
        writer: writer.start(&group),
        topics,
        clock: Arc::new(clock),
        group,
    };
    Ok(Db {
        inner: Arc::new(inner),
    })
}

#[cfg(test)]
mod tests;
