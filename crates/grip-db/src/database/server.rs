//! A Postgres server, which several nodes may share.
//!
//! Transactions are `READ COMMITTED`, whatever the server's default: each statement sees what was
//! committed before it began. That suffices because what must not happen twice is decided by one
//! statement each, under the row locks that it takes (`UPDATE … WHERE`, `FOR UPDATE SKIP LOCKED`,
//! `ON CONFLICT`), and never by reading first and writing what was concluded. So nothing has to be
//! repeated because of others, as `SERIALIZABLE` would ask for.

mod fence;
mod host;
mod listen;
mod monitor;
pub(crate) mod pool;

use std::{fmt, str::FromStr as _, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, postgres::PgConnectOptions};
use tokio::time::{self, Instant, timeout};

pub use self::fence::Fence;
pub(crate) use self::host::Host;
use self::{monitor::Monitor, pool::ConnectionPool};
use super::{Db, Pool, Status, TIME_LIMIT, assemble, migrations};
use crate::{DbError, OpenError, ServerError, clock::Clock, error::shown, writer::Writer};

/// How soon a server that starts at the same time is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// How long a start waits for its name, which a process that has just died may still seem to have.
const NAME_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections beside those that do the work: the writer's, the listener's, the monitor.
const RESERVED_CONNECTIONS: u32 = 3;

/// Which server, and who we are there.
#[derive(Clone)]
pub struct Server {
    /// `postgres://user:password@host/database`; shown without its password.
    pub url: String,
    /// The name of this instance, different from those of all others on the server.
    pub node: String,
    /// Connections at most; work beyond waits for one. Default: 10, and at least 4.
    pub connections: u32,
    /// Longest time a piece of work may take, waiting included; a start waits a third of it for
    /// the server. Default: 30 s.
    pub time_limit: Duration,
    /// Nothing is written unless the cluster is in this epoch. Default: none.
    pub fence: Option<Fence>,
}

impl Server {
    pub fn new(url: impl Into<String>, node: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            node: node.into(),
            connections: 10,
            time_limit: TIME_LIMIT,
            fence: None,
        }
    }

    fn options(&self) -> Result<PgConnectOptions, ServerError> {
        let options = PgConnectOptions::from_str(&self.url).map_err(ServerError::Url)?;
        Ok(options
            .application_name(&format!("gripfast {}", self.node))
            .disable_statement_logging())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.options().map(|options| shown(&options));
        let shown = shown.unwrap_or_else(|_| "the database server".to_owned());
        write!(f, "Server({shown} as {:?})", self.node)
    }
}

impl Db {
    /// Connects to the server, takes the name and brings the schema up to date; instances that
    /// start together wait for each other there.
    pub fn connect<'a>(server: &'a Server) -> BoxFuture<'a, Result<Self, OpenError>> {
        Box::pin(async move {
            let options = server.options()?;
            let host = Host::new(options.clone(), server.time_limit, server.fence.clone());
            migrate(&host).await?;
            let mut monitor = claim(&host, server).await?;
            let failed = |error| unusable(&host, error);
            let time = monitor.time().await.map_err(failed)?;
            let status = Arc::new(Status::new(Clock::new(time.ms)));
            let permits = server
                .connections
                .saturating_sub(RESERVED_CONNECTIONS)
                .max(1);
            let pool = ConnectionPool::new(host.clone(), permits as usize);
            let writer = Writer::lazy(host.clone());
            let node = server.node.clone();
            let db = assemble(
                Pool::Postgres(Box::new(pool)),
                writer,
                node,
                Arc::clone(&status),
            );
            let group = &db.inner.group;
            group.spawn("pulse", monitor.run(status, group.token()));
            let topics = Arc::clone(&db.inner.topics);
            group.spawn("listener", listen::listen(options, topics, group.token()));
            Ok(db)
        })
    }
}

/// The first connection: a server that is about to start is waited for.
async fn reach(host: &Host) -> Result<PgConnection, ServerError> {
    let until = Instant::now() + host.answer();
    loop {
        let left = until.duration_since(Instant::now());
        let reached = timeout(left, PgConnection::connect_with(&host.options)).await;
        let error = match reached {
            Ok(Ok(link)) => return Ok(link),
            Ok(Err(error)) => ServerError::new(&host.options, error),
            Err(_) => return Err(unusable(host, DbError::TimedOut)),
        };
        if !error.is_transient() || Instant::now() + RETRY_DELAY > until {
            return Err(error);
        }
        time::sleep(RETRY_DELAY).await;
    }
}

async fn migrate(host: &Host) -> Result<(), ServerError> {
    let mut link = reach(host).await?;
    let migrated = migrations::postgres()
        .run_direct(None, &mut link, false)
        .await;
    migrated.map_err(|error| ServerError::migration(&host.options, error))?;
    let fsync_off = "SELECT current_setting('fsync') = 'off'";
    let fsync_off = sqlx::query_scalar(fsync_off).fetch_one(&mut link).await;
    if fsync_off.unwrap_or(false) {
        tracing::warn!(
            server = shown(&host.options),
            "the database server does not wait for its disk (fsync is off): it may lose what was \
             acknowledged"
        );
    }
    // Nothing hangs on how it ends.
    let _ = timeout(RETRY_DELAY, link.close()).await;
    Ok(())
}

async fn claim(host: &Host, server: &Server) -> Result<Monitor, ServerError> {
    // A new leader does not wait for the session of a former one, which can write nothing any more.
    let name = match &server.fence {
        Some(fence) => format!("{} in epoch {}", server.node, fence.epoch),
        None => server.node.clone(),
    };
    let claimed = Monitor::claim(host.clone(), name, NAME_TIMEOUT).await;
    let claimed = claimed.map_err(|error| unusable(host, error))?;
    claimed.map_err(|taken| ServerError::NameTaken {
        server: shown(&host.options),
        node: server.node.clone(),
        by: taken.by,
    })
}

/// Why the server is of no use after it had answered.
fn unusable(host: &Host, error: DbError) -> ServerError {
    let server = shown(&host.options);
    match error {
        DbError::TimedOut => ServerError::TimedOut {
            server,
            within: host.answer(),
        },
        error => ServerError::Unusable { server, error },
    }
}

#[cfg(test)]
mod tests;
