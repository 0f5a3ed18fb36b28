//! Listing, retry and removal of jobs for operators.

use super::*;
use crate::Filter;

/// A queue with one job in each state, named by it, and a job of another kind.
async fn one_of_each(db: &Db) -> Queue {
    let queue = Queue::new(db.clone());
    let now = db.now_ms();
    queue.enqueue(vec![NewJob::new("k", "dead")]).await.unwrap();
    let lease = claim_one(&queue).await;
    queue.fail(&lease, Failure::permanent("no")).await.unwrap();
    queue
        .enqueue(vec![NewJob::new("k", "leased")])
        .await
        .unwrap();
    claim_one(&queue).await;
    let jobs = vec![
        NewJob::new("k", "due").due_ms(now - 5_000),
        NewJob::new("k", "waiting").due_ms(now + MINUTE),
        NewJob::new("other", "due"),
    ];
    queue.enqueue(jobs).await.unwrap();
    queue
}

on_both_engines! {
    async fn jobs_are_listed_by_kind_and_state_page_by_page(test: TestDatabase) {
        let queue = one_of_each(test.db()).await;
        for (state, name) in [
            (State::Due, "due"),
            (State::Waiting, "waiting"),
            (State::Leased, "leased"),
            (State::Dead, "dead"),
        ] {
            let filter = Filter { kind: Some("k".into()), state: Some(state), after: None };
            let found = queue.list(&filter, 10).await.unwrap();
            let keys: Vec<_> = found.iter().map(|job| job.key.as_str()).collect();
            assert_eq!(keys, [name]);
            assert_eq!(found[0].state, state);
        }
        let mut filter = Filter::default();
        let mut seen = Vec::new();
        loop {
            let page = queue.list(&filter, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some(last.id);
            seen.extend(page);
        }
        assert_eq!(seen.len(), 5);
        assert!(seen.is_sorted_by(|a, b| a.id < b.id));
    }

    async fn jobs_are_counted_by_kind_and_state(test: TestDatabase) {
        let queue = one_of_each(test.db()).await;
        let stats = queue.stats().await.unwrap();
        let kinds: Vec<_> = stats.iter().map(|kind| kind.kind.as_str()).collect();
        assert_eq!(kinds, ["k", "other"]);
        let k = &stats[0];
        assert_eq!((k.due, k.waiting, k.leased, k.dead), (1, 1, 1, 1));
        assert!((5_000..MINUTE).contains(&k.oldest_due_age_ms), "{k:?}");
        // A moment later the same is shown, without another count.
        queue.remove("other", "due").await.unwrap();
        assert_eq!(queue.stats().await.unwrap(), stats);
    }

    async fn a_retry_by_hand_begins_anew_and_a_removal_forgets(test: TestDatabase) {
        let queue = one_of_each(test.db()).await;
        let mut heard = queue.listen("k");
        heard.mark_unchanged();
        for key in ["dead", "waiting", "leased"] {
            assert!(queue.retry("k", key).await.unwrap());
        }
        assert!(heard.has_changed().unwrap());
        assert!(!queue.retry("k", "none").await.unwrap());
        let leases = queue.claim("k", 10, LEASE).await.unwrap();
        let mut keys: Vec<_> = leases.iter().map(|lease| lease.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["dead", "due", "waiting"]);
        assert!(leases.iter().all(|lease| lease.attempts == 0));
        let asked = leases.iter().map(|lease| (lease.key.as_str(), lease.asked));
        let mut asked: Vec<_> = asked.collect();
        asked.sort_unstable();
        assert_eq!(asked, [("dead", 1), ("due", 0), ("waiting", 1)]);

        assert!(queue.remove("k", "due").await.unwrap());
        assert!(!queue.remove("k", "due").await.unwrap());
        let due = leases.iter().find(|lease| lease.key == "due").unwrap();
        assert_eq!(queue.finish(due).await.unwrap(), Finished::Lost);
        // The one that was worked on all the time runs once more.
        test.db().shift_clock_ms(2 * MINUTE);
        let leases = queue.claim("k", 10, LEASE).await.unwrap();
        assert!(leases.iter().any(|lease| lease.key == "leased"));
    }

    async fn a_retry_by_hand_leaves_the_count_of_the_work_under_way(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        for _ in 0..2 {
            let lease = claim_one(&queue).await;
            queue.retry("k", "a").await.unwrap();
            assert_eq!(facts(&queue, "a").await.attempts, lease.attempts);
            queue.fail(&lease, Failure::transient("no answer")).await.unwrap();
            assert_eq!(facts(&queue, "a").await.attempts, lease.attempts + 1);
            test.db().shift_clock_ms(2 * MINUTE);
        }
    }

    async fn what_failed_for_good_is_forgotten_after_a_month(test: TestDatabase) {
        let queue = one_of_each(test.db()).await;
        test.db().shift_clock_ms(29 * 1_440 * MINUTE);
        assert_eq!(queue.forget_dead("k").await.unwrap(), 0);
        test.db().shift_clock_ms(2 * 1_440 * MINUTE);
        assert_eq!(queue.forget_dead("other").await.unwrap(), 0);
        assert_eq!(queue.forget_dead("k").await.unwrap(), 1);
        assert!(queue.find("k", "dead").await.unwrap().is_none());
        assert!(queue.find("k", "due").await.unwrap().is_some());
    }

    async fn what_comes_again_and_again_is_kept_however_long_ago_it_failed(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        queue.enqueue(vec![NewJob::new("k", "daily").every(LEASE)]).await.unwrap();
        let lease = claim_one(&queue).await;
        queue.fail(&lease, Failure::permanent("no")).await.unwrap();
        test.db().shift_clock_ms(400 * 1_440 * MINUTE);
        assert_eq!(queue.forget_dead("k").await.unwrap(), 0);
        let found = facts(&queue, "daily").await;
        assert_eq!((found.state, found.last_error.as_deref()), (State::Dead, Some("no")));
    }

    async fn failures_are_grouped_by_cause_and_revived_in_bulk(test: TestDatabase) {
        let queue = one_of_each(test.db()).await;
        let fail = async |kind: &'static str, key: String, failure: Failure| {
            let job = NewJob::new(kind, key).every(LEASE);
            queue.enqueue(vec![job]).await.unwrap();
            let leases = queue.claim(kind, 1, LEASE).await.unwrap();
            queue.fail(&leases[0], failure).await.unwrap();
        };
        for n in 0..3 {
            fail("repo", format!("dead {n}"), Failure::permanent("too many tags")).await;
        }
        for n in 0..2 {
            fail("repo", format!("denied {n}"), Failure::next_period("access denied")).await;
        }
        let causes = queue.causes(None).await.unwrap();
        let shown: Vec<_> = causes
            .iter()
            .map(|cause| (&*cause.kind, &*cause.reason, cause.dead, cause.waiting))
            .collect();
        let expected = [
            ("repo", "too many tags", 3, 0),
            ("repo", "access denied", 0, 2),
            ("k", "no", 1, 0),
        ];
        assert_eq!(shown, expected);
        assert_eq!(queue.causes(Some("k")).await.unwrap().len(), 1);

        // Without a cause only what is dead; with one also what waits because of it.
        assert_eq!(queue.revive(Some("repo"), None).await.unwrap(), 3);
        assert_eq!(queue.claim("repo", 10, LEASE).await.unwrap().len(), 3);
        assert_eq!(queue.revive(None, Some("access denied")).await.unwrap(), 2);
        assert_eq!(queue.claim("repo", 10, LEASE).await.unwrap().len(), 2);
        assert_eq!(queue.revive(None, Some("nothing")).await.unwrap(), 0);
        assert_eq!(facts(&queue, "dead").await.state, State::Dead);
        assert_eq!(queue.revive(None, None).await.unwrap(), 1);
    }

    async fn a_name_that_no_job_can_have_is_not_found(test: TestDatabase) {
        let queue = one_of_each(test.db()).await;
        let filter = Filter { kind: Some("k\0".into()), ..Filter::default() };
        assert_eq!(queue.list(&filter, 10).await.unwrap(), []);
        for (kind, key) in [("k\0", "a"), ("k", "\0")] {
            assert!(queue.find(kind, key).await.unwrap().is_none());
            assert!(!queue.retry(kind, key).await.unwrap());
            assert!(!queue.remove(kind, key).await.unwrap());
        }
    }
}
