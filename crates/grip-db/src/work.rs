//! Work on a connection, without its type.
//!
//! Opening, timing and committing are compiled once and not for every caller: an `async fn` is
//! compiled again in each crate that awaits it, with all that it awaits.

use futures_util::future::BoxFuture;

use crate::{Connection, DbError};

/// Work that keeps what it has found out, for its caller to take.
pub(crate) trait Work: Send {
    fn run<'c>(&'c mut self, connection: Connection<'c>) -> BoxFuture<'c, Result<(), DbError>>;
}

/// Work that is done once.
pub(crate) struct Once<T, F> {
    work: Option<F>,
    value: Option<T>,
}

impl<T, F> Once<T, F> {
    pub(crate) fn new(work: F) -> Self {
        Self {
            work: Some(work),
            value: None,
        }
    }

    /// What the work has returned, if it ended as `outcome` says.
    pub(crate) fn value(self, outcome: Result<(), DbError>) -> Result<T, DbError> {
        outcome.and_then(|()| self.value.ok_or(DbError::Closed))
    }
}

impl<T, F> Work for Once<T, F>
where
    T: Send,
    F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send,
{
    fn run<'c>(&'c mut self, connection: Connection<'c>) -> BoxFuture<'c, Result<(), DbError>> {
        Box::pin(async move {
            if let Some(work) = self.work.take() {
                self.value = Some(work(connection).await?);
            }
            Ok(())
        })
    }
}
