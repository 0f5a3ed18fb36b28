mod ends;
mod wakes;

use std::sync::atomic::{AtomicUsize, Ordering};

use grip_db::on_both_engines;
use grip_testkit::{until, until_true, within};

use super::*;
use crate::{Backoff, JobFacts, NewJob, State};

const HOUR: Duration = Duration::from_secs(3_600);

/// A handler made of a function.
struct Does<F>(F);

impl<F> Handler for Does<F>
where
    F: Fn(Job) -> BoxFuture<'static, Outcome> + Send + Sync + 'static,
{
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        (self.0)(job)
    }
}

fn does<F>(work: F) -> Arc<dyn Handler>
where
    F: Fn(Job) -> BoxFuture<'static, Outcome> + Send + Sync + 'static,
{
    Arc::new(Does(work))
}

/// Looks only when there is a reason to.
fn options() -> WorkerOptions {
    WorkerOptions {
        poll: HOUR,
        ..WorkerOptions::default()
    }
}

fn jobs(keys: &[&str]) -> Vec<NewJob> {
    keys.iter().map(|key| NewJob::new("k", *key)).collect()
}

/// The job once it is as wanted.
async fn when(queue: &Queue, key: &str, is: impl Fn(&JobFacts) -> bool) -> JobFacts {
    until("the job is as wanted", async || {
        let found = queue.find("k", key).await.unwrap();
        found.filter(&is)
    })
    .await
    .unwrap()
}

async fn gone(queue: &Queue, key: &str) {
    let look = async || queue.find("k", key).await.unwrap().is_none().then_some(());
    until("the job is gone", look).await.unwrap();
}

on_both_engines! {
    async fn a_worker_does_what_is_asked_for_no_more_at_once_than_it_may(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let counts = Arc::clone(&running);
        let handler = does(move |_| {
            let counts = Arc::clone(&counts);
            Box::pin(async move {
                let now = counts.0.fetch_add(1, Ordering::SeqCst) + 1;
                counts.1.fetch_max(now, Ordering::SeqCst);
                tokio::task::yield_now().await;
                counts.0.fetch_sub(1, Ordering::SeqCst);
                Outcome::Done
            })
        });
        let options = WorkerOptions { at_once: 3, take: 2, ..options() };
        let worker = Worker::start(queue.clone(), "k", handler, options, &group);
        let asked = (0..50).map(|n| NewJob::new("k", n.to_string())).collect();
        assert_eq!(queue.enqueue(asked).await.unwrap(), 50);
        until_true("all is done", || worker.status().done_total == 50).await.unwrap();
        assert!(queue.stats().await.unwrap().is_empty());
        let most = running.1.load(Ordering::SeqCst);
        assert!((2..=3).contains(&most), "{most}");
        worker.shutdown().await;
    }

    async fn each_outcome_is_written(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let finisher = queue.clone();
        let handler = does(move |job| {
            let queue = finisher.clone();
            Box::pin(async move {
                match job.key.as_str() {
                    "panics" => panic!("out of\nluck"),
                    "fails" => Outcome::Failed(Failure::transient("no answer")),
                    "dies" => Outcome::Failed(Failure::permanent("no such thing")),
                    "waits" => Outcome::Postponed { until_ms: queue.db().now_ms() + 60_000, reason: "no budget".into() },
                    "goes" => Outcome::Remove,
                    _ => {
                        let lease = job.lease().clone();
                        let db = queue.db().clone();
                        let written = db.write(|mut db| Box::pin(async move {
                            queue.finish_in(&mut db, &lease).await
                        }));
                        written.await.unwrap();
                        Outcome::Finished
                    }
                }
            })
        });
        let asked = jobs(&["panics", "fails", "dies", "waits", "itself"]);
        queue.enqueue(asked).await.unwrap();
        queue.enqueue(vec![NewJob::new("k", "goes").every(HOUR)]).await.unwrap();
        let worker = Worker::start(queue.clone(), "k", handler, options(), &group);

        let panicked = when(&queue, "panics", |job| job.attempts == 1).await;
        assert_eq!(panicked.last_error.as_deref(), Some("the work panicked: out of luck"));
        let failed = when(&queue, "fails", |job| job.attempts == 1).await;
        assert_eq!((failed.state, failed.last_error.as_deref()), (State::Waiting, Some("no answer")));
        let died = when(&queue, "dies", |job| job.state == State::Dead).await;
        assert_eq!(died.last_error.as_deref(), Some("no such thing"));
        let waits = when(&queue, "waits", |job| job.state == State::Waiting).await;
        assert_eq!((waits.attempts, waits.last_error.as_deref()), (0, Some("no budget")));
        gone(&queue, "goes").await;
        gone(&queue, "itself").await;
        let settled = until("all is counted", async || {
            let status = worker.status();
            (status.running == 0).then_some(status)
        });
        let status = settled.await.unwrap();
        let counts = (status.claimed_total, status.done_total, status.failed_total, status.died_total, status.postponed_total);
        assert_eq!(counts, (6, 2, 2, 1, 1));
        assert_eq!((status.panicked_total, status.lost_total), (1, 0));
    }
}
