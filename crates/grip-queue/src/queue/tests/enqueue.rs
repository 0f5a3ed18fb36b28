//! Effects of a request on a job that is there already.

use grip_testkit::assert_matches;

use super::*;
use crate::BadJob;

on_both_engines! {
    async fn asking_twice_is_one_job_brought_forward_and_never_put_off(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let now = test.db().now_ms();
        let ask = |due: i64, payload: &str| {
            let job = NewJob::new("k", "a").due_ms(now + due).payload(payload);
            queue.enqueue(vec![job])
        };
        assert_eq!(ask(MINUTE, "one").await.unwrap(), 1);
        assert_eq!(ask(2 * MINUTE, "two").await.unwrap(), 0);
        assert_eq!(facts(&queue, "a").await.due_ms, Some(now + MINUTE));
        assert_eq!(ask(1_000, "three").await.unwrap(), 0);
        let found = facts(&queue, "a").await;
        assert_eq!(found.due_ms, Some(now + 1_000));
        assert_eq!((found.payload.as_str(), found.asked), ("three", 2));
    }

    async fn the_same_job_twice_in_one_request_is_one(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let now = test.db().now_ms();
        let jobs = vec![
            NewJob::new("k", "a").due_ms(now + 5_000).every(LEASE).payload("first"),
            NewJob::new("k", "b"),
            NewJob::new("k", "a").due_ms(now + MINUTE).payload("last"),
        ];
        assert_eq!(queue.enqueue(jobs).await.unwrap(), 2);
        let found = facts(&queue, "a").await;
        assert_eq!((found.due_ms, found.period_ms), (Some(now + 5_000), Some(MINUTE)));
        assert_eq!(found.payload, "last");
    }

    async fn a_job_asked_for_while_it_is_worked_on_runs_once_more(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        for payload in ["second", "third"] {
            let again = NewJob::new("k", "a").payload(payload);
            assert_eq!(queue.enqueue(vec![again]).await.unwrap(), 0);
        }
        assert!(nothing_is_due(&queue).await);
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Again);
        let lease = claim_one(&queue).await;
        assert_eq!(lease.payload, "third");
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
        assert!(queue.find("k", "a").await.unwrap().is_none());
    }

    async fn a_request_after_the_lease_ran_out_is_not_lost_by_a_late_finish(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let late = claim_one(&queue).await;
        test.db().shift_clock_ms(2 * MINUTE);
        queue.enqueue(vec![NewJob::new("k", "a").payload("news")]).await.unwrap();
        assert_eq!(queue.finish(&late).await.unwrap(), Finished::Again);
        assert_eq!(claim_one(&queue).await.payload, "news");
    }

    async fn a_request_for_later_outlives_a_lease_that_ran_out(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let _lost = claim_one(&queue).await;
        let later = test.db().now_ms() + 10 * MINUTE;
        queue.enqueue(vec![NewJob::new("k", "a").due_ms(later)]).await.unwrap();
        test.db().shift_clock_ms(2 * MINUTE);
        let lease = claim_one(&queue).await;
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Again);
        assert_eq!(facts(&queue, "a").await.due_ms, Some(later));
    }

    async fn a_request_for_later_outlives_a_failure_and_another_request(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        let later = test.db().now_ms() + 600 * MINUTE;
        queue.enqueue(vec![NewJob::new("k", "a").due_ms(later)]).await.unwrap();
        queue.fail(&lease, Failure::transient("no answer")).await.unwrap();
        queue.enqueue(vec![NewJob::new("k", "a")]).await.unwrap();
        test.db().shift_clock_ms(MINUTE);
        let lease = claim_one(&queue).await;
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Again);
        assert_eq!(facts(&queue, "a").await.due_ms, Some(later));
    }

    async fn a_job_that_waits_out_a_failure_keeps_its_time_unless_it_is_revived(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        let until = test.db().now_ms() + MINUTE;
        queue.fail(&lease, Failure::rate_limited(until, "wait")).await.unwrap();
        queue.enqueue(vec![NewJob::new("k", "a")]).await.unwrap();
        let waits = facts(&queue, "a").await;
        assert!(waits.due_ms >= Some(until), "{waits:?}");
        assert_eq!(waits.limited, 1);
        queue.enqueue(vec![NewJob::new("k", "a").revive()]).await.unwrap();
        assert_eq!(claim_one(&queue).await.limited, 0);
    }

    async fn a_request_in_a_transaction_that_is_given_up_was_never_made(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let asker = queue.clone();
        let asked = test.db().write(|mut db| Box::pin(async move {
            asker.enqueue_in(&mut db, vec![NewJob::new("k", "a")]).await?;
            Err::<(), _>(DbError::Aborted)
        }));
        assert_matches!(asked.await, Err(DbError::Aborted));
        assert!(queue.find("k", "a").await.unwrap().is_none());
    }

    async fn the_keys_that_no_job_has_are_told_whatever_the_state_of_the_others(test: TestDatabase) {
        let queue = queue_with(test.db(), &["dead", "due"]).await;
        let lease = claim_one(&queue).await;
        queue.fail(&lease, Failure::permanent("no")).await.unwrap();
        queue.enqueue(vec![NewJob::new("other", "elsewhere")]).await.unwrap();
        let keys = ["dead", "due", "elsewhere", "it's"].map(String::from).to_vec();
        let asker = queue.clone();
        let missing = test.db().write(|mut db| Box::pin(async move {
            asker.missing_in(&mut db, "k", keys).await
        }));
        assert_eq!(missing.await.unwrap(), ["elsewhere", "it's"]);
    }

    async fn many_large_jobs_are_taken_in_by_one_request(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let large = "é".repeat(32 << 10);
        let small = (0..4_000).map(|n| NewJob::new("k", format!("small {n}")));
        let jobs = small.chain((0..150).map(|n| NewJob::new("k", format!("large {n}")).payload(&*large)));
        assert_eq!(queue.enqueue(jobs.collect()).await.unwrap(), 4_150);
        let stats = queue.stats().await.unwrap();
        assert_eq!((stats.len(), stats[0].due), (1, 4_150));
        assert_eq!(facts(&queue, "large 149").await.payload, large);
    }

    async fn a_job_out_of_bounds_is_refused_with_its_reason_and_so_are_those_beside_it(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        for (bad, said) in [
            (NewJob::new("k", "x".repeat(1_025)), "at most 1024 bytes, and this one has 1025"),
            (NewJob::new("k", ""), "may not be empty"),
            (NewJob::new("k".repeat(129), "a"), "kind of a job may have at most 128"),
            (NewJob::new("k", "a\0b"), "NUL"),
            (NewJob::new("k", "a").payload("x".repeat((64 << 10) + 1)), "payload"),
        ] {
            let told = bad.check().unwrap_err().to_string();
            assert!(told.contains(said), "{told}");
            let error = queue.enqueue(vec![NewJob::new("k", "good"), bad]).await.unwrap_err();
            let source = std::error::Error::source(&error).expect("it has its reason");
            assert_eq!(source.to_string(), told);
        }
        assert!(queue.find("k", "good").await.unwrap().is_none());
        let hostile = NewJob::new("k", "\"'];--\u{7f}\u{1}\\\u{202e}🦀").payload("\u{1f}{\"a\": \"\\u0000\"}");
        queue.enqueue(vec![hostile.clone()]).await.unwrap();
        let lease = claim_one(&queue).await;
        assert_eq!((lease.key, lease.payload), (hostile.key, hostile.payload));
    }

    async fn those_who_ask_for_the_same_jobs_in_other_orders_do_not_stop_each_other(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let group = TaskGroup::new("test");
        let askers: Vec<_> = (0..8)
            .map(|n| {
                let queue = queue.clone();
                group.spawn("asker", async move {
                    for round in 0..5 {
                        let mut keys: Vec<usize> = (0..60).collect();
                        keys.rotate_left((n * 7 + round) % 60);
                        let jobs = keys.iter().map(|key| NewJob::new("k", key.to_string()));
                        queue.enqueue(jobs.collect()).await.unwrap();
                    }
                })
            })
            .collect();
        for asker in askers {
            asker.await.unwrap();
        }
        assert_eq!(queue.stats().await.unwrap()[0].due, 60);
    }
}

#[tokio::test]
async fn a_kind_that_is_full_takes_no_new_jobs() {
    let test = grip_db::TestDatabase::sqlite().await;
    let queue = Queue::new(test.db().clone());
    let full = crate::KindStats {
        kind: "k".into(),
        due: MOST_JOBS - 1,
        waiting: 0,
        leased: 1,
        dead: 0,
        oldest_due_age_ms: 0,
    };
    queue.inner.sampler.keep(&[full], Duration::ZERO);
    let told = BadJob::Full {
        kind: "k".into(),
        most: MOST_JOBS,
    };
    let error = queue
        .enqueue(vec![NewJob::new("k", "a")])
        .await
        .unwrap_err();
    let source = std::error::Error::source(&error).expect("it has its reason");
    assert_eq!(source.to_string(), told.to_string());
    queue
        .enqueue(vec![NewJob::new("other", "a")])
        .await
        .unwrap();
}
