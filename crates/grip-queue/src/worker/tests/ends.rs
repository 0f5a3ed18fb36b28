//! Jobs whose work ends before it is done.

use super::*;

/// Says which of its futures were dropped, and works until it is told to stop, or for ever.
#[derive(Clone, Default)]
struct Endless {
    heeds_the_stop: bool,
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

struct Ends(Arc<AtomicUsize>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Handler for Endless {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let ends = Ends(Arc::clone(&self.ended));
        Box::pin(async move {
            let _ends = ends;
            job.stop().cancelled().await;
            if self.heeds_the_stop {
                Outcome::Done
            } else {
                std::future::pending().await
            }
        })
    }
}

async fn reaches(counter: &AtomicUsize, count: usize) {
    let look = async || (counter.load(Ordering::SeqCst) == count).then_some(());
    until("the count is reached", look).await.unwrap();
}

on_both_engines! {
    async fn a_stop_lets_jobs_end_and_gives_back_the_rest_at_once(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let (heeds, ignores) = (Endless { heeds_the_stop: true, ..Endless::default() }, Endless::default());
        let inner = (heeds.clone(), ignores.clone());
        let handler = does(move |job| {
            let (heeds, ignores) = inner.clone();
            Box::pin(async move {
                match job.key.as_str() {
                    "heeds" => heeds.run(job).await,
                    _ => ignores.run(job).await,
                }
            })
        });
        let options = WorkerOptions { drain: Duration::from_millis(200), at_once: 2, ..options() };
        let worker = Worker::start(queue.clone(), "k", handler, options, &group);
        queue.enqueue(jobs(&["heeds", "ignores"])).await.unwrap();
        reaches(&heeds.begun, 1).await;
        reaches(&ignores.begun, 1).await;
        // Nothing new is begun once it stops.
        group.token().cancel();
        queue.enqueue(jobs(&["late"])).await.unwrap();
        worker.shutdown().await;

        assert_eq!(ignores.ended.load(Ordering::SeqCst), 1);
        assert!(queue.find("k", "heeds").await.unwrap().is_none());
        let back = queue.find("k", "ignores").await.unwrap().unwrap();
        assert_eq!((back.state, back.holder, back.attempts, back.lost), (State::Due, None, 0, 0));
        assert_eq!(queue.find("k", "late").await.unwrap().unwrap().state, State::Due);
    }

    async fn a_job_is_dropped_when_its_lease_is_somebody_elses(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let endless = Endless::default();
        let options = WorkerOptions { lease: Duration::from_millis(900), ..options() };
        let worker = Worker::start(queue.clone(), "k", Arc::new(endless.clone()), options, &group);
        queue.enqueue(jobs(&["a"])).await.unwrap();
        reaches(&endless.begun, 1).await;
        queue.remove("k", "a").await.unwrap();
        reaches(&endless.ended, 1).await;
        let lost = async || (worker.status().lost_total == 1).then_some(());
        until("it is counted", lost).await.unwrap();
        assert_eq!(worker.status().running, 0);
    }

    async fn a_job_longer_than_its_lease_keeps_it(test: TestDatabase) {
        let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
        let endless = Endless::default();
        let lease = Duration::from_millis(900);
        let options = WorkerOptions { lease, drain: Duration::ZERO, ..options() };
        let worker = Worker::start(queue.clone(), "k", Arc::new(endless.clone()), options, &group);
        queue.enqueue(jobs(&["a"])).await.unwrap();
        let first = when(&queue, "a", |job| job.holder.is_some()).await;
        // Three leases long nobody else gets it.
        let ends = first.due_ms.map(|ends| ends + 3 * 900);
        until("three leases have passed", async || {
            assert!(queue.claim("k", 1, lease).await.unwrap().is_empty());
            (Some(test.db().now_ms()) > ends).then_some(())
        })
        .await
        .unwrap();
        assert_eq!(endless.begun.load(Ordering::SeqCst), 1);
        assert_eq!(endless.ended.load(Ordering::SeqCst), 0);
        worker.shutdown().await;
    }
}

#[tokio::test]
async fn a_job_that_its_own_worker_claims_again_is_never_worked_on_twice_at_once() {
    let test = grip_db::TestDatabase::sqlite().await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    let endless = Endless::default();
    let (first, overlapped) = (endless.clone(), Arc::new(AtomicUsize::new(0)));
    let overlaps = Arc::clone(&overlapped);
    let handler = does(move |job| {
        let (first, overlaps) = (first.clone(), Arc::clone(&overlaps));
        Box::pin(async move {
            if job.key == "a" && job.lost == 0 {
                return first.run(job).await;
            }
            let is_under_way = first.ended.load(Ordering::SeqCst) == 0;
            overlaps.fetch_add(usize::from(is_under_way), Ordering::SeqCst);
            Outcome::Done
        })
    });
    let worker = Worker::start(queue.clone(), "k", handler, options(), &group);
    queue.enqueue(jobs(&["a"])).await.unwrap();
    reaches(&endless.begun, 1).await;
    // As after a sleep of the whole machine: the lease has run out, and nobody has noticed.
    test.db().shift_clock_ms(600_000);
    queue.retry("k", "a").await.unwrap();
    gone(&queue, "a").await;
    let settled = async || (worker.status().running == 0).then_some(());
    until("all places are free", settled).await.unwrap();
    assert_eq!(overlapped.load(Ordering::SeqCst), 0);
    assert_eq!(endless.begun.load(Ordering::SeqCst), 1);
    assert_eq!(worker.status().lost_total, 1);
    worker.shutdown().await;
}

#[tokio::test]
async fn a_job_that_brings_processes_down_is_kept_for_somebody_to_look_at() {
    let test = grip_db::TestDatabase::sqlite().await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    queue.enqueue(jobs(&["poison"])).await.unwrap();
    for _ in 0..11 {
        let leases = queue.claim("k", 1, Duration::from_secs(60)).await.unwrap();
        assert_eq!(leases.len(), 1);
        test.db().shift_clock_ms(60_000);
    }
    let endless = Endless::default();
    let worker = Worker::start(
        queue.clone(),
        "k",
        Arc::new(endless.clone()),
        options(),
        &group,
    );
    let dead = when(&queue, "poison", |job| job.state == State::Dead).await;
    let reason = dead.last_error.unwrap();
    assert!(reason.starts_with("11 leases in a row ran out"), "{reason}");
    assert_eq!(endless.begun.load(Ordering::SeqCst), 0);
    worker.shutdown().await;
}

#[tokio::test]
async fn a_worker_that_is_dropped_stops() {
    let test = grip_db::TestDatabase::sqlite().await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    let worker = Worker::start(queue, "k", Arc::new(Endless::default()), options(), &group);
    drop(worker);
    let ended = async || {
        group
            .status()
            .iter()
            .all(|kind| kind.running == 0)
            .then_some(())
    };
    until("its tasks have ended", ended).await.unwrap();
}

#[tokio::test]
async fn a_worker_whose_database_was_closed_stays_calm_and_stops_when_told() {
    let test = grip_db::TestDatabase::sqlite().await;
    let (queue, group) = (Queue::new(test.db().clone()), TaskGroup::new("test"));
    let worker = Worker::start(queue, "k", Arc::new(Endless::default()), options(), &group);
    test.db().close().await;
    within("the worker stops", worker.shutdown()).await.unwrap();
}
