//! A server that is down, or does not answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use grip_db::TestDatabase;
use grip_queue::{Handler, Job, NewJob, Outcome, Queue, Worker, WorkerOptions};
use grip_tasks::TaskGroup;
use grip_testkit::{PostgresServer, until, until_true};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::work::LEASE;

/// Works for ever on `endless`, and notes when it was dropped.
#[derive(Default)]
struct Notes {
    begun: AtomicUsize,
    begun_at: Mutex<Option<Instant>>,
    dropped_at: Arc<Mutex<Option<Instant>>>,
}

struct Dropped(Arc<Mutex<Option<Instant>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.0.lock() = Some(Instant::now());
    }
}

impl Handler for Notes {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.begun_at.lock().get_or_insert_with(Instant::now);
        let dropped = Dropped(Arc::clone(&self.dropped_at));
        Box::pin(async move {
            if job.key == "endless" && job.lost == 0 {
                let _dropped = dropped;
                std::future::pending::<()>().await;
            }
            Outcome::Done
        })
    }
}

fn options() -> WorkerOptions {
    WorkerOptions {
        lease: LEASE,
        poll: Duration::from_secs(1),
        drain: Duration::from_millis(100),
        ..WorkerOptions::default()
    }
}

async fn begun(notes: &Notes, count: usize) {
    let look = async || (notes.begun.load(Ordering::SeqCst) >= count).then_some(());
    until("the work has begun", look).await.unwrap();
}

#[tokio::test]
async fn work_is_dropped_before_its_lease_ends_where_the_server_falls_silent() {
    let server = PostgresServer::start().await.unwrap();
    let test = TestDatabase::postgres(&server.url()).await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    let notes = Arc::new(Notes::default());
    let handler: Arc<dyn Handler> = notes.clone();
    let worker = Worker::start(queue.clone(), "k", handler, options(), &group);
    queue
        .enqueue(vec![NewJob::new("k", "endless")])
        .await
        .unwrap();
    begun(&notes, 1).await;

    server.freeze().unwrap();
    let frozen = Instant::now();
    let dropped = async || *notes.dropped_at.lock();
    let dropped = until("the work is dropped", dropped).await.unwrap();
    assert!(dropped - frozen < LEASE, "{:?}", dropped - frozen);
    assert!(
        dropped - frozen > LEASE / 4,
        "too early: {:?}",
        dropped - frozen
    );
    assert!(worker.status().away_ms.is_some());

    // It goes on by itself when the server does.
    server.thaw().unwrap();
    begun(&notes, 2).await;
    until("all is done", async || {
        let status = worker.status();
        (status.done_total == 1 && status.away_ms.is_none()).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(worker.status().lost_total, 1);
    worker.shutdown().await;
}

#[tokio::test]
async fn work_done_while_the_server_is_away_is_written_when_it_is_back() {
    let mut server = PostgresServer::durable().await.unwrap();
    let test = TestDatabase::postgres(&server.url()).await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    let notes = Arc::new(Notes::default());
    let handler: Arc<dyn Handler> = notes.clone();
    let options = WorkerOptions {
        lease: Duration::from_secs(60),
        ..options()
    };
    queue.enqueue(vec![NewJob::new("k", "a")]).await.unwrap();
    // Held back until the server is gone.
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let gated: Arc<dyn Handler> = Arc::new(Gated {
        gate: gate.clone(),
        inner: handler,
    });
    let worker = Worker::start(queue.clone(), "k", gated, options, &group);
    until_true("it is claimed", || worker.status().running == 1)
        .await
        .unwrap();
    server.kill();
    gate.add_permits(1);
    begun(&notes, 1).await;
    server.launch().await.unwrap();
    until_true("it is written", || worker.status().done_total == 1)
        .await
        .unwrap();
    assert!(queue.find("k", "a").await.unwrap().is_none());
    assert_eq!(
        notes.begun.load(Ordering::SeqCst),
        1,
        "it is not done again"
    );
    worker.shutdown().await;
}

struct Gated {
    gate: Arc<tokio::sync::Semaphore>,
    inner: Arc<dyn Handler>,
}

impl Handler for Gated {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let _open = self.gate.acquire().await.unwrap();
            self.inner.run(job).await
        })
    }
}
