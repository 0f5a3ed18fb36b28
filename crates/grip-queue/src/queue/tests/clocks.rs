//! Clocks that jump.

use super::*;
use crate::LONGEST_LEASE;

const YEAR: i64 = 365 * 24 * 60 * MINUTE;

on_both_engines! {
    async fn after_the_clock_was_set_back_nothing_waits_for_the_old_time(test: TestDatabase) {
        let queue = queue_with(test.db(), &["left", "dead"]).await;
        let period = Duration::from_secs(7 * 86_400);
        test.db().shift_clock_ms(YEAR);
        let leases = queue.claim("k", 2, LEASE).await.unwrap();
        queue.fail(&leases[1], Failure::permanent("no")).await.unwrap();
        let now = test.db().now_ms();
        let later = vec![NewJob::new("k", "later").due_ms(now + MINUTE)];
        queue.enqueue(later).await.unwrap();
        queue.enqueue(vec![NewJob::new("k", "weekly").due_ms(now + 6 * 1_440 * MINUTE).every(period)]).await.unwrap();
        // All of that is as it should be.
        assert_eq!(queue.adjust_to_clock("k").await.unwrap(), 0);

        test.db().shift_clock_ms(-YEAR);
        let now = test.db().now_ms();
        assert_eq!(queue.adjust_to_clock("k").await.unwrap(), 3);
        let due = async |key: &str| facts(&queue, key).await.due_ms.unwrap() - now;
        assert!((0..2 * MINUTE).contains(&due("later").await));
        assert!((0..7 * 1_440 * MINUTE).contains(&due("weekly").await));
        let lease = if leases[0].key == "left" { "left" } else { "dead" };
        let longest = LONGEST_LEASE.as_millis() as i64;
        assert!((longest..longest + 2 * MINUTE).contains(&due(lease).await));
        assert_eq!(queue.adjust_to_clock("k").await.unwrap(), 0);
        // A live holder has its lease all the same.
        assert_eq!(queue.renew(&[&leases[0]], LEASE).await.unwrap(), [leases[0].id]);
        assert!(due(lease).await < 2 * MINUTE);
        assert_eq!(queue.finish(&leases[0]).await.unwrap(), Finished::Done);
    }

    async fn after_the_clock_jumped_ahead_only_one_of_two_holders_counts(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a", "b"]).await;
        let leases = queue.claim("k", 2, LEASE).await.unwrap();
        test.db().shift_clock_ms(YEAR);
        // The first beats in time, the second does not.
        assert_eq!(queue.renew(&[&leases[0]], LEASE).await.unwrap(), [leases[0].id]);
        let taken = claim_one(&queue).await;
        assert_eq!(taken.id, leases[1].id);
        assert!(nothing_is_due(&queue).await);
        assert_eq!(queue.finish(&leases[1]).await.unwrap(), Finished::Lost);
        assert_eq!(queue.finish(&taken).await.unwrap(), Finished::Done);
        assert_eq!(queue.finish(&leases[0]).await.unwrap(), Finished::Done);
    }

    async fn nothing_can_be_asked_for_further_ahead_than_a_day_or_its_period(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let never = || NewJob::new("k", "a").due_ms(i64::MAX);
        queue.enqueue(vec![never()]).await.unwrap();
        let due = facts(&queue, "a").await.due_ms.unwrap();
        assert!(due <= test.db().now_ms() + 1_440 * MINUTE);
        test.db().shift_clock_ms(1_440 * MINUTE);
        let lease = claim_one(&queue).await;
        assert!(queue.postpone(&lease, i64::MAX, "never").await.unwrap());
        let due = facts(&queue, "a").await.due_ms.unwrap();
        assert!(due <= test.db().now_ms() + 1_440 * MINUTE);
        assert_eq!(queue.adjust_to_clock("k").await.unwrap(), 0);
    }
}

on_both_engines! {
    async fn times_at_the_ends_of_the_numbers_break_nothing(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let longest = Duration::from_millis(i64::MAX as u64);
        let asked = vec![NewJob::new("k", "a").due_ms(i64::MIN).every(longest)];
        queue.enqueue(asked).await.unwrap();
        let stats = queue.stats().await.unwrap();
        assert!(stats[0].oldest_due_age_ms > 0, "{stats:?}");
        let lease = claim_one(&queue).await;
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
        assert_eq!(queue.adjust_to_clock("k").await.unwrap(), 0);
        assert!(facts(&queue, "a").await.due_ms.unwrap() > test.db().now_ms());
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_is_noticed_once() {
    let mut watch = crate::clock::Watch::new(1_000_000);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(!watch.was_set_back(1_010_000));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(watch.was_set_back(990_000));
    assert!(!watch.was_set_back(990_000));
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(!watch.was_set_back(9_000_000));
}
