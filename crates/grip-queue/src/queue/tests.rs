use std::time::Duration;

use grip_db::{on_both_engines, prepare_all};

use super::*;
use crate::{Failed, Failure, Finished};

const LEASE: Duration = Duration::from_secs(60);

async fn claim_one(queue: &Queue) -> Lease {
    let mut leases = queue.claim("k", 1, LEASE).await.unwrap();
    leases.pop().expect("a job is due")
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_job_is_claimed_once_and_gone_when_finished(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let asked = vec![NewJob::new("k", "a").payload("p"), NewJob::new("other", "a")];
        assert_eq!(queue.enqueue(asked).await.unwrap(), 2);
        let lease = claim_one(&queue).await;
        assert_eq!((lease.key.as_str(), lease.payload.as_str()), ("a", "p"));
        assert!(queue.claim("k", 1, LEASE).await.unwrap().is_empty());
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Done);
        assert!(queue.find("k", "a").await.unwrap().is_none());
        assert_eq!(queue.finish(&lease).await.unwrap(), Finished::Lost);
    }

    async fn a_failure_with_an_old_token_changes_nothing_and_says_so(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        queue.enqueue(vec![NewJob::new("k", "a")]).await.unwrap();
        let lease = claim_one(&queue).await;
        assert_eq!(queue.release(std::slice::from_ref(&lease)).await.unwrap(), 1);
        let later = claim_one(&queue).await;
        let before = queue.find("k", "a").await.unwrap();
        let failed = queue.fail(&lease, Failure::permanent("no")).await.unwrap();
        assert_eq!(failed, Failed::Lost);
        assert!(queue.renew(&[&lease], LEASE).await.unwrap().is_empty());
        assert_eq!(queue.find("k", "a").await.unwrap(), before);
        assert_eq!(queue.finish(&later).await.unwrap(), Finished::Done);
    }
}
