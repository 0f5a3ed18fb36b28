//! Effects of the end of a lease on its job.

use grip_testkit::assert_matches;

use super::*;

/// Claims, fails, and waits until the job is due again.
async fn fail_once(queue: &Queue, failure: Failure) -> Failed {
    let lease = claim_one(queue).await;
    let failed = queue.fail(&lease, failure).await.unwrap();
    if let Failed::Later { at_ms } = failed {
        let db = queue.db();
        db.shift_clock_ms((at_ms - db.now_ms()).max(0));
    }
    failed
}

/// Drops what the lease's job was asked with, and ends it.
async fn finish_without_payload(queue: &Queue, lease: &Lease) -> Finished {
    let (ours, lease) = (queue.clone(), lease.clone());
    let finishing = queue.db().write(|mut db| {
        Box::pin(async move {
            ours.drop_payload_in(&mut db, &lease).await?;
            ours.finish_in(&mut db, &lease).await
        })
    });
    finishing.await.unwrap()
}

on_both_engines! {
    async fn a_payload_for_one_turn_is_dropped_unless_it_came_with_another_request(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let job = || NewJob::new("k", "a").every(LEASE).payload("news");
        queue.enqueue(vec![job()]).await.unwrap();
        let lease = claim_one(&queue).await;
        queue.enqueue(vec![job()]).await.unwrap();
        assert_eq!(finish_without_payload(&queue, &lease).await, Finished::Again);
        let next = claim_one(&queue).await;
        assert_eq!(next.payload, "news");
        // Who lost the job drops nothing.
        assert_eq!(finish_without_payload(&queue, &lease).await, Finished::Lost);
        assert_eq!(facts(&queue, "a").await.payload, "news");
        assert_eq!(finish_without_payload(&queue, &next).await, Finished::Done);
        assert_eq!(facts(&queue, "a").await.payload, "");
    }

    async fn a_transient_failure_is_tried_five_times_ever_later_and_then_kept(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let mut waits = Vec::new();
        for attempt in 1..5 {
            let before = test.db().now_ms();
            let Failed::Later { at_ms } = fail_once(&queue, Failure::transient("no answer")).await else {
                panic!("attempt {attempt} was the last");
            };
            waits.push(at_ms - before);
            assert_eq!(facts(&queue, "a").await.attempts, attempt);
        }
        let expected = [10_000, 40_000, 160_000, 640_000];
        for (wait, expected) in waits.iter().zip(expected) {
            assert!((expected * 3 / 4..=expected * 5 / 4 + 2_000).contains(wait), "{waits:?}");
        }
        assert_eq!(fail_once(&queue, Failure::transient("still none")).await, Failed::Dead);
        test.db().shift_clock_ms(1_000 * MINUTE);
        assert!(nothing_is_due(&queue).await);
        let dead = facts(&queue, "a").await;
        assert_eq!((dead.state, dead.due_ms), (State::Dead, None));
        assert_eq!(dead.last_error.as_deref(), Some("still none"));
    }

    async fn a_rate_limit_is_waited_for_however_often_it_binds(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        for _ in 0..12 {
            let until = test.db().now_ms() + 30 * MINUTE;
            let failed = fail_once(&queue, Failure::rate_limited(until, "slow down")).await;
            let Failed::Later { at_ms } = failed else { panic!("{failed:?}") };
            assert!((until..until + 5_001).contains(&at_ms), "{at_ms} {until}");
        }
        let job = facts(&queue, "a").await;
        assert_eq!((job.attempts, job.limited), (0, 12));
    }

    async fn what_may_pass_is_tried_again_with_the_next_period(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let jobs = vec![NewJob::new("k", "daily").every(LEASE), NewJob::new("once", "a")];
        queue.enqueue(jobs).await.unwrap();
        let lease = claim_one(&queue).await;
        let now = test.db().now_ms();
        let failed = queue.fail(&lease, Failure::next_period("access denied")).await.unwrap();
        let Failed::Later { at_ms } = failed else { panic!("{failed:?}") };
        assert!(at_ms >= now + LEASE.as_millis() as i64, "{at_ms}");
        assert_eq!(facts(&queue, "daily").await.last_error.as_deref(), Some("access denied"));
        let leases = queue.claim("once", 1, LEASE).await.unwrap();
        let failed = queue.fail(&leases[0], Failure::next_period("access denied")).await.unwrap();
        assert_eq!(failed, Failed::Dead, "without a period there is no next one");
    }

    async fn a_permanent_failure_is_kept_until_somebody_revives_it(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let failed = fail_once(&queue, Failure::permanent("no such\0repository\n")).await;
        assert_eq!(failed, Failed::Dead);
        queue.enqueue(vec![NewJob::new("k", "a")]).await.unwrap();
        assert!(nothing_is_due(&queue).await);
        let reason = facts(&queue, "a").await.last_error;
        assert_eq!(reason.as_deref(), Some("no such repository"));
        queue.enqueue(vec![NewJob::new("k", "a").revive()]).await.unwrap();
        let lease = claim_one(&queue).await;
        assert_eq!(lease.attempts, 0);
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
    }

    async fn a_job_asked_for_while_it_failed_for_good_is_tried_anew(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        queue.enqueue(vec![NewJob::new("k", "a").payload("mended")]).await.unwrap();
        let failed = queue.fail(&lease, Failure::permanent("broken")).await.unwrap();
        assert_matches!(failed, Failed::Later { .. });
        let lease = claim_one(&queue).await;
        assert_eq!((lease.attempts, lease.payload.as_str()), (0, "mended"));
    }

    async fn a_job_with_a_period_comes_again_and_again(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let job = NewJob::new("k", "a").every(Duration::from_secs(3_600));
        queue.enqueue(vec![job]).await.unwrap();
        fail_once(&queue, Failure::transient("once")).await;
        for _ in 0..2 {
            let lease = claim_one(&queue).await;
            let before = test.db().now_ms();
            assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
            let waits = facts(&queue, "a").await;
            let due = waits.due_ms.unwrap();
            assert!((before + 60 * MINUTE..before + 61 * MINUTE).contains(&due));
            assert_eq!((waits.attempts, waits.last_error), (0, None));
            assert!(nothing_is_due(&queue).await);
            test.db().shift_clock_ms(60 * MINUTE);
        }
        // Asked for by somebody who knows nothing of the period.
        queue.enqueue(vec![NewJob::new("k", "a")]).await.unwrap();
        let lease = claim_one(&queue).await;
        queue.enqueue(vec![NewJob::new("k", "a")]).await.unwrap();
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Again);
        let lease = claim_one(&queue).await;
        assert_eq!(lease.period_ms, Some(60 * MINUTE));
        assert_eq!(queue.remove_leased(&lease).await.unwrap(), Finished::Done);
        assert!(queue.find("k", "a").await.unwrap().is_none());
    }

    async fn a_job_with_a_period_that_keeps_failing_waits_for_the_next_one(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let job = NewJob::new("k", "a").every(Duration::from_secs(86_400));
        queue.enqueue(vec![job]).await.unwrap();
        for _ in 0..4 {
            fail_once(&queue, Failure::transient("no answer")).await;
        }
        let before = test.db().now_ms();
        let failed = fail_once(&queue, Failure::transient("no answer yet")).await;
        let Failed::Later { at_ms } = failed else { panic!("{failed:?}") };
        assert!(at_ms >= before + 86_400_000);
        let found = facts(&queue, "a").await;
        assert_eq!((found.attempts, found.last_error.as_deref()), (0, Some("no answer yet")));
        assert_eq!(fail_once(&queue, Failure::permanent("gone")).await, Failed::Dead);
    }

    async fn putting_off_and_giving_back_count_as_nothing(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        let until = test.db().now_ms() + MINUTE;
        assert!(queue.postpone(&lease, until, "no budget").await.unwrap());
        let found = facts(&queue, "a").await;
        assert_eq!((found.state, found.due_ms), (State::Waiting, Some(until)));
        assert_eq!(found.last_error.as_deref(), Some("no budget"));
        test.db().shift_clock_ms(MINUTE);
        let lease = claim_one(&queue).await;
        assert_eq!(queue.release(std::slice::from_ref(&lease)).await.unwrap(), 1);
        // The lease is over though nobody has another one.
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Lost);
        let lease = claim_one(&queue).await;
        assert_eq!((lease.attempts, lease.limited, lease.lost), (0, 0, 0));
    }

    async fn work_is_undone_with_the_finish_of_a_lost_lease(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        test.db().shift_clock_ms(2 * MINUTE);
        let other = claim_one(&queue).await;
        let finish = |lease: Lease| {
            let queue = queue.clone();
            test.db().write(|mut db| Box::pin(async move {
                queue.enqueue_in(&mut db, vec![NewJob::new("k", "result")]).await?;
                match queue.finish_in(&mut db, &lease).await? {
                    Finished::Lost => Err(DbError::Aborted),
                    finished => Ok(finished),
                }
            }))
        };
        assert_matches!(finish(lease).await, Err(DbError::Aborted));
        assert!(queue.find("k", "result").await.unwrap().is_none());
        assert_eq!(finish(other).await.unwrap(), Finished::Done);
        assert!(queue.find("k", "result").await.unwrap().is_some());
    }

    async fn a_finish_after_the_end_of_the_lease_counts_while_nobody_else_has_it(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        test.db().shift_clock_ms(60 * MINUTE);
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
        assert!(queue.find("k", "a").await.unwrap().is_none());
    }

    async fn what_a_former_run_of_this_node_held_is_due_at_once_and_what_others_hold_is_not(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        if test.db().engine() == grip_db::Engine::Postgres {
            let other = Queue::new(test.another("other").await);
            assert_eq!(other.reclaim().await.unwrap(), 0);
            assert!(nothing_is_due(&other).await);
        }
        let test = test.reopen().await;
        let restarted = Queue::new(test.db().clone());
        assert_eq!(restarted.reclaim().await.unwrap(), 1);
        assert_eq!(claim_one(&restarted).await.key, "a");
        assert_eq!(restarted.finish(&lease).await.unwrap(), Finished::Lost);
        assert_eq!(facts(&restarted, "a").await.lost, 1);
    }
}
