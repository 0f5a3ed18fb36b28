//! Limits, failures and interruptions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grip_db::TestDatabase;
use grip_index::{Options, SourceError};
use grip_queue::State;
use grip_testkit::until;

use crate::support::{FakeSource, Running};

fn in_ms(ms: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap() + ms
}

fn wait(ms: i64, counts: bool) -> SourceError {
    SourceError::Wait {
        until_ms: in_ms(ms),
        reason: "the budget is spent".into(),
        counts,
    }
}

fn one(tags: u32) -> std::sync::Arc<FakeSource> {
    let source = FakeSource::new("acme");
    source.add("one");
    for n in 0..tags {
        source.tag("one", &format!("v0.0.{n}"), n);
    }
    source
}

async fn job_that_failed(error: SourceError) -> (Running, TestDatabase, grip_queue::JobFacts) {
    let test = TestDatabase::sqlite().await;
    let source = one(1);
    source.fail("tags", [error]);
    let running = Running::start(test.db(), &[&source]).await;
    let job = until("the job has a reason", || async {
        let job = running.queue.find("index-repo", &source.full("one")).await;
        job.unwrap().filter(|job| job.last_error.is_some())
    });
    let job = job.await.unwrap();
    (running, test, job)
}

#[tokio::test]
async fn a_limit_known_before_the_call_puts_the_job_off_and_counts_nothing() {
    let (_running, _test, job) = job_that_failed(wait(3_600_000, false)).await;
    assert_eq!(job.state, State::Waiting);
    assert_eq!((job.attempts, job.limited), (0, 0));
    assert_eq!(job.last_error.as_deref(), Some("the budget is spent"));
    let off_by = job.due_ms.unwrap() - in_ms(3_600_000);
    assert!((-5_000..5_000).contains(&off_by), "{off_by}");
}

#[tokio::test]
async fn a_limit_that_was_answered_counts_as_one() {
    let (_running, _test, job) = job_that_failed(wait(3_600_000, true)).await;
    assert_eq!(
        (job.state, job.attempts, job.limited),
        (State::Waiting, 0, 1)
    );
    assert!(job.due_ms.unwrap() >= in_ms(3_590_000));
}

#[tokio::test]
async fn a_failure_for_good_is_kept_with_its_reason() {
    let error = SourceError::Permanent("access was denied".into());
    let (_running, _test, job) = job_that_failed(error).await;
    assert_eq!(job.state, State::Dead);
    assert_eq!(job.last_error.as_deref(), Some("access was denied"));
}

#[tokio::test]
async fn a_failure_that_passes_is_tried_again() {
    let test = TestDatabase::sqlite().await;
    let source = one(1);
    let bad = || SourceError::Transient("the host failed with status 502".into());
    source.fail("tags", [bad(), bad(), bad()]);
    let running = Running::settled(test.db(), &[&source]).await;
    assert_eq!(running.feed().await, ["fake.example/acme/one@v0.0.0"]);
    assert_eq!(running.job(&source.full("one")).await.last_error, None);
}

grip_db::on_both_engines! {
    async fn what_was_learned_before_a_limit_is_not_asked_again(test: TestDatabase) {
        const TAGS: u32 = 5_000;
        let source = one(TAGS);
        // In the middle, and again a little later.
        source.fail("go.mod fake.example/acme/one 2500", [wait(200, false)]);
        source.fail("created fake.example/acme/one 3300", [wait(200, false), wait(200, false)]);
        let options = Options { spacing: Duration::ZERO, ..Options::default() };
        let running = Running::with(test.db(), &[&source], options).await;
        until("the turn was interrupted", || async {
            let job = running.queue.find("index-repo", &source.full("one")).await.unwrap();
            job.filter(|job| job.last_error.is_some())
        })
        .await
        .unwrap();
        assert!(running.feed().await.is_empty(), "half a turn is visible");
        running.settle().await;
        assert_eq!(running.feed().await.len(), TAGS as usize);
        let calls = source.calls();
        let count = |start: &str| calls.iter().filter(|call| call.starts_with(start)).count();
        // Each once, and those that failed as often as they failed.
        assert_eq!(count("go.mod"), TAGS as usize + 1);
        assert_eq!(count("created"), TAGS as usize + 2);
        assert_eq!(count("tags"), 4);
    }

    async fn timestamps_go_forward_whatever_the_clock_does(test: TestDatabase) {
        let source = one(1);
        let running = Running::settled(test.db(), &[&source]).await;
        let mut last = running.index.stamp().await.unwrap();
        for (n, ms) in [(1, 3_600_000), (2, -7_200_000), (3, -1), (4, 86_400_000), (5, -86_400_000)] {
            test.db().shift_clock_ms(ms);
            source.tag("one", &format!("v1.0.{n}"), 100 + n);
            let pushed = running.index.source_push("fake.example", "acme", "one").await;
            assert!(pushed.unwrap());
            let version = format!("v1.0.{n}");
            let seen = until("the version is in the feed", || async {
                // What waits for a time that was set back is due by hand.
                running.queue.retry("index-repo", &source.full("one")).await.unwrap();
                running.index.version("fake.example/acme/one", &version).await.unwrap()
            });
            let seen = seen.await.unwrap().first_seen_ns;
            assert!(seen > last, "{seen} is not after {last}");
            last = seen;
        }
        assert_eq!(running.feed().await.len(), 6);
    }
}

#[tokio::test]
async fn a_source_that_is_configured_elsewhere_is_left_to_those_who_have_it() {
    let test = TestDatabase::sqlite().await;
    let (ours, theirs) = (one(1), FakeSource::new("other"));
    theirs.add("two");
    theirs.tag("two", "v1.0.0", 1);
    let running = Running::settled(test.db(), &[&ours, &theirs]).await;
    running.stop().await;
    let running = Running::settled(test.db(), &[&ours]).await;
    let two = theirs.full("two");
    assert!(running.queue.retry("index-repo", &two).await.unwrap());
    running.turn_alone(&ours, "one").await;
    let job = running.job(&two).await;
    assert_eq!(
        (job.state, job.attempts, job.last_error),
        (State::Due, 0, None)
    );
    assert_eq!(running.feed().await.len(), 2, "its versions stay");
    let status = running.index.status().await.unwrap();
    let configured: Vec<_> = status.sources.iter().map(|s| s.is_configured).collect();
    assert_eq!(configured, [true, false]);
}
