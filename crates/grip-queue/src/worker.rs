//! Takes jobs of one kind and has them done.
//!
//! The loop wakes when it is told of new work, when the next job is due, when a job ends,
//! and now and then in any case. A heartbeat beside it renews all leases. A job whose lease could
//! not be renewed is told to stop, and is dropped before the lease can end.

mod attempt;
mod claim;
mod heartbeat;
mod leases;
mod maintenance;
mod outage;
mod status;

use std::{ops::Deref, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_tasks::{CancellationToken, TaskGroup};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::status::WorkerStatus;
use self::{leases::HeldLeases, outage::Outage};
use crate::{Failure, Lease, Queue, clock::lease_length};

/// Does the work of one kind.
pub trait Handler: Send + Sync + 'static {
    /// Does one job. The future is dropped where the lease ends before it is done: what it hands
    /// to threads has to look at [`Job::stop`]. A panic counts as a transient failure.
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome>;
}

/// A job under way.
#[derive(Clone, Debug)]
pub struct Job {
    lease: Lease,
    stop: CancellationToken,
}

/// How the work on a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The handler has ended the lease itself, in a transaction of its own.
    Finished,
    Failed(Failure),
    /// Put off; counts as no attempt.
    Postponed {
        until_ms: i64,
        reason: String,
    },
    /// Given to those who can do it; counts as no attempt.
    HandedOver {
        capability: String,
    },
    /// The job is not needed any more, with its period.
    Remove,
}

/// How a worker works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerOptions {
    /// Jobs at a time. Default: 4.
    pub at_once: usize,
    /// Jobs taken by one claim. Default: 16.
    pub take: usize,
    /// Default: 5 minutes.
    pub lease: Duration,
    /// How often it looks when nothing is heard. Default: 15 seconds.
    pub poll: Duration,
    /// How long jobs may go on after the stop, before they are given back. Should be shorter than
    /// the grace of the group's shutdown. Default: 5 seconds.
    pub drain: Duration,
    /// Takes only jobs that need one of these; None: all. Default: all.
    pub capabilities: Option<Vec<String>>,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            at_once: 4,
            take: 16,
            lease: Duration::from_secs(5 * 60),
            poll: Duration::from_secs(15),
            drain: Duration::from_secs(5),
            capabilities: None,
        }
    }
}

/// Owns the loop that does the jobs of one kind.
///
/// It stops with its group, or when dropped: it takes nothing new, lets the jobs under way come
/// to an end for a while, and gives back the rest.
#[must_use = "dropping the worker stops it"]
pub struct Worker {
    shared: Arc<Shared>,
    group: TaskGroup,
}

/// What the tasks of a worker share.
struct Shared {
    queue: Queue,
    kind: String,
    handler: Arc<dyn Handler>,
    options: WorkerOptions,
    group: TaskGroup,
    held: HeldLeases,
    /// Told when a job that stays may be due soon.
    due: Notify,
    outage: Outage,
    /// Only what is counted of the status.
    counts: Mutex<WorkerStatus>,
    /// The jobs under way end now.
    give_up: CancellationToken,
    /// The tasks beside the loop end.
    over: CancellationToken,
}

impl Worker {
    pub fn start(
        queue: Queue,
        kind: impl Into<String>,
        handler: Arc<dyn Handler>,
        options: WorkerOptions,
        group: &TaskGroup,
    ) -> Self {
        let (kind, group) = (kind.into(), group.child("worker"));
        let options = WorkerOptions {
            at_once: options.at_once.max(1),
            take: options.take.max(1),
            lease: lease_length(options.lease),
            ..options
        };
        let shared = Arc::new(Shared {
            outage: Outage::new(kind.clone()),
            queue,
            kind,
            handler,
            options,
            group: group.clone(),
            held: HeldLeases::default(),
            due: Notify::new(),
            counts: Mutex::default(),
            give_up: CancellationToken::new(),
            over: CancellationToken::new(),
        });
        group.spawn("loop", claim::run(Arc::clone(&shared)));
        group.spawn("heartbeat", heartbeat::run(Arc::clone(&shared)));
        group.spawn("upkeep", maintenance::run(Arc::clone(&shared)));
        Self { shared, group }
    }

    pub fn status(&self) -> WorkerStatus {
        self.shared.status()
    }

    /// Stops this worker alone and waits until it has given its jobs back.
    pub async fn shutdown(self) {
        let grace = self.shared.options.drain * 2 + Duration::from_secs(5);
        // Whichever way it ended: leases that were not given back run out.
        let _ = self.group.shutdown(grace).await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.group.token().cancel();
    }
}

impl Job {
    /// For [`Queue::finish_in`].
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Is cancelled when the work should come to an end: the node stops, or the lease could not
    /// be renewed.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }
}

impl Deref for Job {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

#[cfg(test)]
mod tests;
