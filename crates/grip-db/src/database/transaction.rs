//! Work on pooled connections, with and without a transaction.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::SqlitePool;
use tokio::time::timeout;

use super::{Inner, TIME_LIMIT, server::pool::ConnectionPool};
use crate::{
    Connection, DbError,
    connection::{EngineConnection, WorkState},
    work::Work,
};

impl Inner {
    pub(super) fn check_name(&self) -> Result<(), DbError> {
        if self.status.name_taken.is_cancelled() {
            Err(DbError::NameTaken)
        } else {
            Ok(())
        }
    }

    /// Does the work on a connection that reads a file.
    pub(super) fn read<'a>(
        &'a self,
        pool: &'a SqlitePool,
        work: &'a mut dyn Work,
    ) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(within(TIME_LIMIT, async move {
            let mut state = WorkState::default();
            let mut link = pool.acquire().await.map_err(DbError::of_file)?;
            let link = EngineConnection::Sqlite(&mut link);
            work.run(Connection::new(link, &mut state)).await
        }))
    }

    /// Does the work outside of any transaction.
    pub(super) fn run<'a>(
        &'a self,
        pool: &'a ConnectionPool,
        work: &'a mut dyn Work,
    ) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(async move {
            self.check_name()?;
            let mut state = WorkState::default();
            let done = within(pool.time_limit(), async {
                let mut pooled = pool.acquire().await?;
                let link = EngineConnection::Postgres(pooled.link());
                let done = work.run(Connection::new(link, &mut state)).await;
                if done.as_ref().err().is_none_or(DbError::keeps_connection) {
                    pooled.release();
                }
                done
            });
            let done = done.await;
            self.ended(pool, done, state)
        })
    }

    pub(super) fn transact<'a>(
        &'a self,
        pool: &'a ConnectionPool,
        work: &'a mut dyn Work,
    ) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(async move {
            self.check_name()?;
            let mut state = WorkState::default();
            let done = within(pool.time_limit(), async {
                let mut pooled = pool.acquire().await?;
                let mut connection =
                    Connection::new(EngineConnection::Postgres(pooled.link()), &mut state);
                connection.command("BEGIN").await?;
                if let Some(fence) = pool.fence() {
                    fence.hold(&mut connection).await?;
                }
                let done = work.run(connection.reborrow()).await;
                let done = connection.state().judge(done);
                match &done {
                    Ok(()) => connection.command("COMMIT").await?,
                    Err(error) if error.keeps_connection() => {
                        connection.command("ROLLBACK").await?;
                    }
                    // Closed with its connection, it is undone.
                    Err(_) => return done,
                }
                pooled.release();
                done
            });
            let done = done.await;
            self.ended(pool, done, state)
        })
    }

    fn ended(
        &self,
        pool: &ConnectionPool,
        done: Result<(), DbError>,
        state: WorkState,
    ) -> Result<(), DbError> {
        match &done {
            Ok(()) => state
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
async fn within(
    time_limit: Duration,
    work: impl Future<Output = Result<(), DbError>>,
) -> Result<(), DbError> {
    timeout(time_limit, work)
        .await
        .unwrap_or(Err(DbError::TimedOut))
}
