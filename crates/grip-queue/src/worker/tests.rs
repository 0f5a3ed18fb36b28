use std::sync::atomic::{AtomicUsize, Ordering};

use grip_db::on_both_engines;
use grip_testkit::until;

use super::*;
use crate::NewJob;

#[derive(Default)]
struct Counting {
    ran: AtomicUsize,
}

impl Handler for Counting {
    fn run(&self, _: Job) -> BoxFuture<'_, Outcome> {
        self.ran.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Outcome::Done })
    }
}

on_both_engines! {
    async fn a_worker_does_what_is_asked_for(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let handler = Arc::new(Counting::default());
        let worker = Worker::start(queue.clone(), "k", handler.clone(), WorkerOptions::default(), &group);
        let jobs = (0..50).map(|n| NewJob::new("k", n.to_string())).collect();
        assert_eq!(queue.enqueue(jobs).await.unwrap(), 50);
        until("all is done", async || (worker.status().done_total == 50).then_some(())).await.unwrap();
        assert_eq!(handler.ran.load(Ordering::Relaxed), 50);
        assert!(queue.stats().await.unwrap().is_empty());
        worker.shutdown().await;
    }
}
