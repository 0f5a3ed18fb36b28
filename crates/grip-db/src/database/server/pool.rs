//! The connection pool of a server; each connection serves one piece of work at a time.
//!
//! Our own because a pool that tests each connection before and after its use triples the round
//! trips of a claim, and hides for ten seconds that nobody answers.

use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sqlx::{Connection as _, PgConnection};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use super::{Fence, Host};
use crate::DbError;

/// A connection that was idle for longer is tested before it is used.
const FRESH: Duration = Duration::from_secs(1);
/// A connection that was idle for longer is not kept.
const STALE: Duration = Duration::from_secs(300);

/// A bounded number of connections. Beyond it callers wait, and give up after a third of the
/// time limit.
pub(crate) struct ConnectionPool {
    host: Host,
    permits: Semaphore,
    /// At most as many as there are permits; the one used last is used first.
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    link: PgConnection,
    since: Instant,
}

/// A connection for one piece of work. Dropped, it is closed, which undoes what was begun; only
/// who has seen its work end cleanly gives it back.
#[must_use = "a connection that is not given back is closed"]
pub(crate) struct PooledConnection<'p> {
    pool: &'p ConnectionPool,
    link: PgConnection,
    _permit: SemaphorePermit<'p>,
}

impl ConnectionPool {
    pub(crate) fn new(host: Host, permits: usize) -> Self {
        Self {
            host,
            permits: Semaphore::new(permits),
            idle: Mutex::default(),
        }
    }

    pub(crate) fn fence(&self) -> Option<&Fence> {
        self.host.fence()
    }

    pub(crate) fn time_limit(&self) -> Duration {
        self.host.time_limit()
    }

    pub(crate) fn acquire(&self) -> BoxFuture<'_, Result<PooledConnection<'_>, DbError>> {
        Box::pin(async move {
            let place = timeout(self.host.answer(), self.permits.acquire()).await;
            let place = place
                .map_err(|_| DbError::Busy)?
                .map_err(|_| DbError::Closed)?;
            let link = match self.acquire_idle().await {
                Some(link) => link,
                None => self.host.open().await?,
            };
            Ok(PooledConnection {
                pool: self,
                link,
                _permit: place,
            })
        })
    }

    /// A connection beyond the bound, for the one piece of work that may hold it for minutes.
    pub(crate) async fn open_apart(&self) -> Result<PgConnection, DbError> {
        self.host.open().await
    }

    async fn acquire_idle(&self) -> Option<PgConnection> {
        let Idle { mut link, since } = self.idle.lock().pop()?;
        if since.elapsed() < FRESH {
            return Some(link);
        }
        match timeout(self.host.answer(), link.ping()).await {
            Ok(Ok(())) => Some(link),
            _ => {
                // What broke one has most likely broken all.
                self.idle.lock().clear();
                None
            }
        }
    }

    /// Lets go of all connections that nobody uses: the server has gone, or was another one.
    pub(crate) fn close_idle(&self) {
        self.idle.lock().clear();
    }

    /// Ends the connections; later requests fail with [`DbError::Closed`].
    pub(crate) async fn close(&self) {
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle.lock());
        for Idle { link, .. } in idle {
            let _ = timeout(self.host.answer(), link.close()).await;
        }
    }
}

impl PooledConnection<'_> {
    pub(crate) fn link(&mut self) -> &mut PgConnection {
        &mut self.link
    }

    /// Keeps the connection for the next piece of work.
    pub(crate) fn release(self) {
        if self.pool.permits.is_closed() {
            return;
        }
        let mut idle = self.pool.idle.lock();
        // The oldest are at the front.
        let stale = idle.iter().take_while(|it| it.since.elapsed() > STALE);
        let stale = stale.count();
        idle.drain(..stale);
        idle.push(Idle {
            link: self.link,
            since: Instant::now(),
        });
    }
}
