//! Wake-ups of a worker. None of these tests waits for the poll, which is an hour away.

use grip_testkit::until_true;

use super::*;

/// Notes which keys were done.
fn noting() -> (Arc<Mutex<Vec<String>>>, Arc<dyn Handler>) {
    let done = Arc::<Mutex<Vec<String>>>::default();
    let notes = Arc::clone(&done);
    let handler = does(move |job| {
        notes.lock().push(job.key.clone());
        Box::pin(async { Outcome::Done })
    });
    (done, handler)
}

on_both_engines! {
    async fn a_worker_wakes_when_a_job_becomes_due(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let (done, handler) = noting();
        let _worker = Worker::start(queue.clone(), "k", handler, options(), &group);
        let now = test.db().now_ms();
        let asked = [("third", 450), ("first", 150), ("second", 300)];
        let asked = asked.map(|(key, after)| NewJob::new("k", key).due_ms(now + after));
        queue.enqueue(asked.into()).await.unwrap();
        until_true("all is done", || done.lock().len() == 3).await.unwrap();
        assert_eq!(*done.lock(), ["first", "second", "third"]);
        assert!(test.db().now_ms() >= now + 450);
    }

    async fn a_worker_wakes_for_the_retry_of_what_failed_and_for_the_next_period(test: TestDatabase) {
        let backoff = Backoff { first: Duration::from_millis(50), factor: 2 };
        let queue = Queue::with_backoff(test.db().clone(), backoff);
        let group = TaskGroup::new("test");
        let handler = does(|job| Box::pin(async move {
            match (job.key.as_str(), job.attempts) {
                ("stubborn", 0..=2) => Outcome::Failed(Failure::transient("not yet")),
                _ => Outcome::Done,
            }
        }));
        queue.enqueue(jobs(&["stubborn"])).await.unwrap();
        queue.enqueue(vec![NewJob::new("k", "often").every(Duration::from_millis(40))]).await.unwrap();
        let worker = Worker::start(queue.clone(), "k", handler, options(), &group);
        gone(&queue, "stubborn").await;
        assert_eq!(worker.status().failed_total, 3);
        until_true("many periods", || worker.status().done_total >= 8).await.unwrap();
    }

    async fn a_worker_runs_a_job_again_that_was_asked_for_meanwhile(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let (done, handler) = noting();
        let asker = queue.clone();
        let asking = does(move |job| {
            let (queue, inner) = (asker.clone(), Arc::clone(&handler));
            Box::pin(async move {
                if job.payload.is_empty() {
                    let again = NewJob::new("k", &*job.key).payload("again");
                    queue.enqueue(vec![again]).await.unwrap();
                }
                inner.run(job).await
            })
        });
        let _worker = Worker::start(queue.clone(), "k", asking, options(), &group);
        queue.enqueue(jobs(&["a"])).await.unwrap();
        gone(&queue, "a").await;
        assert_eq!(*done.lock(), ["a", "a"]);
    }
}

#[tokio::test]
async fn a_worker_wakes_for_what_another_instance_asks_for() {
    let server = grip_testkit::PostgresServer::start().await.unwrap();
    let test = grip_db::TestDatabase::postgres(&server.url()).await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    let (done, handler) = noting();
    let worker = Worker::start(queue, "k", handler, options(), &group);
    let other = Queue::new(test.another("other").await);
    for n in 1..=3 {
        other.enqueue(jobs(&[&n.to_string()])).await.unwrap();
        until_true("it is done", || done.lock().len() == n)
            .await
            .unwrap();
    }
    worker.shutdown().await;
}

#[tokio::test]
async fn a_worker_takes_over_when_the_lease_of_another_ends() {
    let test = grip_db::TestDatabase::sqlite().await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    let (done, handler) = noting();
    queue.enqueue(jobs(&["a"])).await.unwrap();
    let lease = queue
        .claim("k", 1, Duration::from_millis(300))
        .await
        .unwrap();
    let worker = Worker::start(queue.clone(), "k", handler, options(), &group);
    gone(&queue, "a").await;
    assert!(test.db().now_ms() >= lease[0].ends_ms);
    assert_eq!(done.lock().len(), 1);
    worker.shutdown().await;
}
