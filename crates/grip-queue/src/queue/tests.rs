mod clocks;
mod enqueue;
mod finish;
mod model;
mod operator;
mod plans;

use std::time::Duration;

use grip_db::{on_both_engines, prepare_all};
use grip_tasks::TaskGroup;

use super::*;
use crate::{Failed, Failure, Finished, JobFacts, NewJob, State};

const LEASE: Duration = Duration::from_secs(60);
const MINUTE: i64 = 60_000;

/// A queue with these jobs of the kind `k` due.
async fn queue_with(db: &Db, keys: &[&str]) -> Queue {
    let queue = Queue::new(db.clone());
    let jobs = keys.iter().map(|key| NewJob::new("k", *key)).collect();
    assert_eq!(queue.enqueue(jobs).await.unwrap(), keys.len());
    queue
}

async fn claim_one(queue: &Queue) -> Lease {
    let mut leases = queue.claim("k", 1, LEASE).await.unwrap();
    leases.pop().expect("a job is due")
}

async fn nothing_is_due(queue: &Queue) -> bool {
    queue.claim("k", 1, LEASE).await.unwrap().is_empty()
}

async fn facts(queue: &Queue, key: &str) -> JobFacts {
    let found = queue.find("k", key).await.unwrap();
    found.expect("the job is there")
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_job_is_claimed_once_and_gone_when_finished(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        queue.enqueue(vec![NewJob::new("other", "a")]).await.unwrap();
        let lease = claim_one(&queue).await;
        assert_eq!((lease.kind.as_str(), lease.key.as_str()), ("k", "a"));
        assert!(nothing_is_due(&queue).await);
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
        assert!(queue.find("k", "a").await.unwrap().is_none());
        assert!(queue.find("other", "a").await.unwrap().is_some());
    }

    async fn claims_made_at_once_share_nothing(test: TestDatabase) {
        let keys: Vec<String> = (0..400).map(|n| n.to_string()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let first = queue_with(test.db(), &keys).await;
        let second = match test.db().engine() {
            grip_db::Engine::Postgres => Queue::new(test.another("second").await),
            grip_db::Engine::Sqlite => Queue::new(test.db().clone()),
        };
        let group = TaskGroup::new("test");
        let claimers: Vec<_> = (0..8)
            .map(|n| {
                let queue = if n % 2 == 0 { first.clone() } else { second.clone() };
                group.spawn("claimer", async move {
                    let mut ids = Vec::new();
                    loop {
                        let leases = queue.claim("k", 7, LEASE).await.unwrap();
                        if leases.is_empty() {
                            return ids;
                        }
                        ids.extend(leases.iter().map(|lease| lease.id));
                    }
                })
            })
            .collect();
        let mut ids = Vec::new();
        for claimer in claimers {
            ids.extend(claimer.await.unwrap());
        }
        assert_eq!(ids.len(), 400);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 400);
    }

    async fn a_lease_that_ran_out_goes_to_the_next_and_the_old_one_is_worth_nothing(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let old = claim_one(&queue).await;
        test.db().shift_clock_ms(MINUTE);
        let new = claim_one(&queue).await;
        assert_eq!((new.id, new.lost), (old.id, 1));
        let before = facts(&queue, "a").await;
        assert_eq!(before.holder.as_deref(), Some(queue.holder()));

        assert_eq!(queue.finish(&old).await.unwrap(), Finished::Lost);
        assert_eq!(queue.remove_leased(&old).await.unwrap(), Finished::Lost);
        let failed = queue.fail(&old, Failure::permanent("no")).await.unwrap();
        assert_eq!(failed, Failed::Lost);
        assert!(!queue.postpone(&old, 0, "later").await.unwrap());
        assert_eq!(queue.release(std::slice::from_ref(&old)).await.unwrap(), 0);
        assert_eq!(queue.renew(&[&old, &new], LEASE).await.unwrap(), [new.id]);
        let after = facts(&queue, "a").await;
        assert!(after.due_ms >= before.due_ms);
        assert_eq!(JobFacts { due_ms: None, ..after }, JobFacts { due_ms: None, ..before });
        assert_eq!(queue.finish(&new).await.unwrap(), Finished::Done);
    }

    async fn a_renewed_lease_does_not_run_out(test: TestDatabase) {
        let queue = queue_with(test.db(), &["a"]).await;
        let lease = claim_one(&queue).await;
        for _ in 0..3 {
            test.db().shift_clock_ms(MINUTE / 2);
            assert_eq!(queue.renew(&[&lease], LEASE).await.unwrap(), [lease.id]);
            assert!(nothing_is_due(&queue).await);
        }
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
    }
}
