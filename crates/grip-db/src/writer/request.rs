//! Requests to the writer.

use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::{
    Connection, DbError,
    work::{Once, Work},
};

/// Work for the writer, and the caller who waits for it.
pub(super) trait Requested: Work {
    /// When it was asked for.
    fn since(&self) -> Instant;

    fn answer(self: Box<Self>, outcome: Result<(), DbError>);
}

pub(super) type Request = Box<dyn Requested>;

pub(super) struct Pending<T, F> {
    pub(super) since: Instant,
    pub(super) work: Once<T, F>,
    pub(super) answer: oneshot::Sender<Result<T, DbError>>,
}

impl<T, F> Work for Pending<T, F>
where
    T: Send,
    F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send,
{
    fn run<'c>(&'c mut self, connection: Connection<'c>) -> BoxFuture<'c, Result<(), DbError>> {
        self.work.run(connection)
    }
}

impl<T, F> Requested for Pending<T, F>
where
    T: Send,
    F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send,
{
    fn since(&self) -> Instant {
        self.since
    }

    fn answer(self: Box<Self>, outcome: Result<(), DbError>) {
        let Self { work, answer, .. } = *self;
        // Nobody listens any more: the caller was told that its work may be done all the same.
        let _ = answer.send(work.value(outcome));
    }
}

/// The way to the writer.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(super) requests: mpsc::Sender<Request>,
}

impl Handle {
    /// Waits for room in the channel. Cancel safe.
    pub(crate) fn reserve(&self) -> BoxFuture<'_, Result<Reserved, DbError>> {
        let since = Instant::now();
        Box::pin(async move {
            let permit = self.requests.clone().reserve_owned().await;
            let permit = permit.map_err(|_| DbError::Closed)?;
            Ok(Reserved { since, permit })
        })
    }
}

/// A permit to send one request.
pub(crate) struct Reserved {
    since: Instant,
    permit: mpsc::OwnedPermit<Request>,
}

impl Reserved {
    /// Queues the work at once; the future waits until it is on the disk. All of it is done or
    /// nothing, in the order of these calls.
    ///
    /// A caller that stops waiting does not take its work back: it may still be done.
    pub(crate) fn request<T, F>(
        self,
        work: F,
    ) -> impl Future<Output = Result<T, DbError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<T, DbError>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        self.permit.send(Box::new(Pending {
            since: self.since,
            work: Once::new(work),
            answer,
        }));
        async move { answered.await.map_err(|_| DbError::Closed)? }
    }
}
