//! Handles of tasks.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinError};

/// Waits for a task, as tokio's handle does. What the task returns lies beside it, so that what runs
/// tasks is compiled once and not for every kind of task.
///
/// Dropping it leaves the task at work.
pub struct JoinHandle<T> {
    task: tokio::task::JoinHandle<()>,
    output: Output<T>,
}

/// The place where a task leaves what it returns.
pub(crate) struct Output<T>(Arc<Mutex<Option<T>>>);

impl<T> Output<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(crate) fn set(&self, value: T) {
        *self.0.lock() = Some(value);
    }
}

impl<T: Send + 'static> Output<T> {
    /// `work` as one kind of function, and the place where it leaves what it returns.
    pub(crate) fn of(work: impl FnOnce() -> T + Send + 'static) -> (BlockingWork, Self) {
        let output = Self::new();
        let shared = output.share();
        (Box::new(move || shared.set(work())), output)
    }
}

/// Work for a thread where it may block.
pub(crate) type BlockingWork = Box<dyn FnOnce() + Send>;

/// Runs `work` on a thread where it may block, in the name of the task that waits for it.
pub fn spawn_blocking<F, T>(work: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (work, output) = Output::of(work);
    JoinHandle::new(tokio::task::spawn_blocking(work), output)
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(task: tokio::task::JoinHandle<()>, output: Output<T>) -> Self {
        Self { task, output }
    }

    /// Ends the task at its next `.await`; blocking work that has begun goes on.
    pub fn abort(&self) {
        self.task.abort();
    }

    pub fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }

    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = ready!(Pin::new(&mut self.task).poll(cx));
        let output = ended.map(|()| self.output.0.lock().take());
        Poll::Ready(output.map(|output| output.expect("a task that has ended leaves its output")))
    }
}
