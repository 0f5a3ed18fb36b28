//! Pieces of work on connections to a server.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use super::{Inner, server::pool::Connections};
use crate::{
    Connection, DbError,
    connection::{Link, Notes},
};

impl Inner {
    pub(super) fn check_name(&self) -> Result<(), DbError> {
        match self.standing.usurped.is_cancelled() {
            true => Err(DbError::NameTaken),
            false => Ok(()),
        }
    }

    /// Does the work outside of any transaction.
    pub(super) async fn run<T, F>(&self, pool: &Connections, work: F) -> Result<T, DbError>
    where
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>>,
    {
        self.check_name()?;
        let mut notes = Notes::default();
        let done = in_time(pool.patience(), async {
            let mut lent = pool.take().await?;
            let done = work(Connection::new(Link::Postgres(lent.link()), &mut notes)).await;
            if done.as_ref().err().is_none_or(DbError::spares_the_line) {
                lent.give_back();
            }
            done
        });
        self.ended(pool, done.await, notes)
    }

    pub(super) async fn transact<T, F>(&self, pool: &Connections, work: F) -> Result<T, DbError>
    where
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>>,
    {
        self.check_name()?;
        let mut notes = Notes::default();
        let done = in_time(pool.patience(), async {
            let mut lent = pool.take().await?;
            let mut connection = Connection::new(Link::Postgres(lent.link()), &mut notes);
            connection.command("BEGIN").await?;
            let done = work(connection.part()).await;
            let done = connection.notes().judge(done);
            match &done {
                Ok(_) => connection.command("COMMIT").await?,
                Err(error) if error.spares_the_line() => connection.command("ROLLBACK").await?,
                // Closed with its connection, it is undone.
                Err(_) => return done,
            }
            lent.give_back();
            done
        });
        self.ended(pool, done.await, notes)
    }

    fn ended<T>(
        &self,
        pool: &Connections,
        done: Result<T, DbError>,
        notes: Notes,
    ) -> Result<T, DbError> {
        match &done {
            Ok(_) => notes.told.iter().for_each(|topic| self.topics.tell(topic)),
            // The others are likely to be of the same server that is no more.
            Err(DbError::Unreachable(_)) => pool.forget_idle(),
            Err(_) => {}
        }
        done
    }
}

/// A server that does not answer holds nobody up for longer than this.
pub(super) async fn in_time<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, DbError>>,
) -> Result<T, DbError> {
    timeout(patience, work)
        .await
        .unwrap_or(Err(DbError::Silent))
}
