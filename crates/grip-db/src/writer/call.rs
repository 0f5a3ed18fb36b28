//! What is asked of the writer.

use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{Connection, DbError};

/// Work for the writer, and the caller who waits for it.
pub(super) trait Job: Send {
    fn run<'c>(&'c mut self, connection: Connection<'c>) -> BoxFuture<'c, Result<(), DbError>>;

    /// When it was asked for.
    fn since(&self) -> Instant;

    fn answer(self: Box<Self>, outcome: Result<(), DbError>);
}

pub(super) type Call = Box<dyn Job>;

pub(super) struct Asked<T, F> {
    pub(super) since: Instant,
    pub(super) work: Option<F>,
    pub(super) value: Option<T>,
    pub(super) answer: oneshot::Sender<Result<T, DbError>>,
}

impl<T, F> Job for Asked<T, F>
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

    fn since(&self) -> Instant {
        self.since
    }

    fn answer(self: Box<Self>, outcome: Result<(), DbError>) {
        let Self { value, answer, .. } = *self;
        let outcome = outcome.and_then(|()| value.ok_or(DbError::Closed));
        // Nobody listens any more: the caller was told that its work may be done all the same.
        let _ = answer.send(outcome);
    }
}

/// The way to the writer.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(super) calls: mpsc::Sender<Call>,
}

impl Handle {
    /// Waits for a place in the queue. Cancel safe.
    pub(crate) async fn reserve(&self) -> Result<Reserved, DbError> {
        let since = Instant::now();
        let place = self.calls.clone().reserve_owned().await;
        let place = place.map_err(|_| DbError::Closed)?;
        Ok(Reserved { since, place })
    }
}

/// A place in the queue.
pub(crate) struct Reserved {
    since: Instant,
    place: mpsc::OwnedPermit<Call>,
}

impl Reserved {
    /// Queues the work at once; the future waits until it is on the disk. All of it is done or
    /// nothing, in the order of these calls.
    ///
    /// A caller that stops waiting does not take its work back: it may still be done.
    pub(crate) fn call<T, F>(
        self,
        work: F,
    ) -> impl Future<Output = Result<T, DbError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.place.send(Box::new(Asked {
            since: self.since,
            work: Some(work),
            value: None,
            answer,
        }));
        async move { answered.await.map_err(|_| DbError::Closed)? }
    }
}
