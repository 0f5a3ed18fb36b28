//! A few threads for queries, so that a long scan holds up neither the runtime nor the writer.

use std::{sync::Arc, thread};

use crossbeam_channel::{Receiver, Sender};
use grip_store::EventStore;
use tokio::sync::{Semaphore, oneshot};

use crate::{Stats, stats::Raised};

type Job = Box<dyn FnOnce(&EventStore) + Send>;

/// The threads. They end when the last handle is gone.
pub(crate) struct Readers {
    jobs: Sender<Job>,
    /// As many as the channel has places: sending never blocks.
    places: Arc<Semaphore>,
    stats: Arc<Stats>,
}

impl Readers {
    /// At the bound of `queue` callers wait.
    pub(crate) fn start(store: &EventStore, stats: Arc<Stats>, queue: usize) -> Self {
        let (jobs, queued) = crossbeam_channel::bounded::<Job>(queue);
        // One more than there are cores, so that one endless scan does not take half of them.
        let threads = thread::available_parallelism().map_or(2, usize::from) + 1;
        for number in 0..threads {
            let (queued, store) = (queued.clone(), store.clone());
            thread::Builder::new()
                .name(format!("relay-reader-{number}"))
                .spawn(move || run(&queued, &store))
                .expect("a thread can be started when the process begins");
        }
        Self {
            jobs,
            places: Arc::new(Semaphore::new(queue)),
            stats,
        }
    }

    /// Runs `work` on one of the threads. `None` if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&EventStore) -> T + Send + 'static,
    ) -> Option<T> {
        let _waiting = Raised::new(&self.stats.read_queue);
        let places = Arc::clone(&self.places);
        let place = places.acquire_owned().await.expect("never closed");
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |store| {
            drop(place);
            // Nobody waits any more for what a closed connection asked.
            if !reply.is_closed() {
                drop(reply.send(work(store)));
            }
        });
        self.jobs.try_send(job).ok()?;
        answer.await.ok()
    }
}

fn run(queued: &Receiver<Job>, store: &EventStore) {
    for job in queued {
        let work = std::panic::AssertUnwindSafe(|| job(store));
        if std::panic::catch_unwind(work).is_err() {
            tracing::error!("a query panicked");
        }
    }
}
