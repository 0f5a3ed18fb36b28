//! Work on a server's connections, with and without a transaction.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{Inner, server::pool::ConnectionPool};
use crate::{
    Connection, DbError,
    connection::{EngineConnection, WorkState},
};

impl Inner {
    pub(super) fn check_name(&self) -> Result<(), DbError> {
        if self.status.name_taken.is_cancelled() {
            Err(DbError::NameTaken)
        } else {
            Ok(())
        }
    }

    /// Does the work outside of any transaction.
    pub(super) async fn run<T, F>(&self, pool: &ConnectionPool, work: F) -> Result<T, DbError>
    where
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>>,
    {
        self.check_name()?;
        let mut state = WorkState::default();
        let done = within(pool.time_limit(), async {
            let mut pooled = pool.acquire().await?;
            let done = work(Connection::new(
                EngineConnection::Postgres(pooled.link()),
                &mut state,
            ))
            .await;
            if done.as_ref().err().is_none_or(DbError::keeps_connection) {
                pooled.release();
            }
            done
        });
        self.ended(pool, done.await, state)
    }

    pub(super) async fn transact<T, F>(&self, pool: &ConnectionPool, work: F) -> Result<T, DbError>
    where
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>>,
    {
        self.check_name()?;
        let mut state = WorkState::default();
        let done = within(pool.time_limit(), async {
            let mut pooled = pool.acquire().await?;
            let mut connection =
                Connection::new(EngineConnection::Postgres(pooled.link()), &mut state);
            connection.command("BEGIN").await?;
            let done = work(connection.reborrow()).await;
            let done = connection.state().judge(done);
            match &done {
                Ok(_) => connection.command("COMMIT").await?,
                Err(error) if error.keeps_connection() => connection.command("ROLLBACK").await?,
                // Closed with its connection, it is undone.
                Err(_) => return done,
            }
            pooled.release();
            done
        });
        self.ended(pool, done.await, state)
    }

    fn ended<T>(
        &self,
        pool: &ConnectionPool,
        done: Result<T, DbError>,
        state: WorkState,
    ) -> Result<T, DbError> {
        match &done {
            Ok(_) => state
                .notified
                .iter()
                .for_each(|topic| self.topics.notify(topic)),
            // The others are likely to be of the same server that is no more.
            Err(DbError::Unreachable(_)) => pool.close_idle(),
            Err(_) => {}
        }
        done
    }
}

/// A server that does not answer holds nobody up for longer than this.
pub(super) async fn within<T>(
    time_limit: Duration,
    work: impl Future<Output = Result<T, DbError>>,
) -> Result<T, DbError> {
    timeout(time_limit, work)
        .await
        .unwrap_or(Err(DbError::TimedOut))
}
