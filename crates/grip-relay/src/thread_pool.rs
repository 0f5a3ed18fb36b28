//! Thread pool for work that must not hold up the runtime: checking events, and queries.

use std::{sync::Arc, thread};

use crossbeam_channel::{Receiver, Sender};
use tokio::sync::{Semaphore, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// The threads. They end when the last handle is gone.
///
/// Not rayon's: the queue of those has no bound, and others in the process use them too.
pub(crate) struct ThreadPool {
    jobs: Sender<Job>,
    /// As many as the channel holds: sending never blocks.
    permits: Arc<Semaphore>,
    count: usize,
}

impl ThreadPool {
    /// At the bound of `queue` callers wait.
    pub(crate) fn start(name: &str, count: usize, queue: usize) -> Self {
        let (jobs, queued) = crossbeam_channel::bounded::<Job>(queue);
        for number in 0..count {
            let queued = queued.clone();
            thread::Builder::new()
                .name(format!("{name}-{number}"))
                .spawn(move || run(&queued))
                .expect("a thread can be started when the process begins");
        }
        Self {
            jobs,
            permits: Arc::new(Semaphore::new(queue)),
            count,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Runs `work` on one of the threads. `None` if it panicked. Work that nobody waits for any
    /// more is not begun.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permits = Arc::clone(&self.permits);
        let permit = permits.acquire_owned().await.expect("never closed");
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            drop(permit);
            if !reply.is_closed() {
                drop(reply.send(work()));
            }
        });
        self.jobs.try_send(job).ok()?;
        answer.await.ok()
    }
}

fn run(queued: &Receiver<Job>) {
    for job in queued {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("relay thread panicked");
        }
    }
}
