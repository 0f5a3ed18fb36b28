//! What we published: what is under way, and when it is told again.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use libp2p::kad::QueryId;
use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};

use super::stats::{Stats, count};
use crate::{DhtError, Published, RecordKey};

/// Our own keys, each with the time at which it is told again.
pub(super) struct Own {
    most: usize,
    every: Option<Duration>,
    due: HashMap<RecordKey, Option<Instant>>,
    queue: BTreeSet<(Instant, RecordKey)>,
}

impl Own {
    pub(super) fn new(most: usize, every: Option<Duration>) -> Self {
        Self {
            most,
            every,
            due: HashMap::new(),
            queue: BTreeSet::new(),
        }
    }

    /// Notes that `key` was told now; false if there is no room for one more.
    pub(super) fn told(&mut self, key: &RecordKey, now: Instant) -> bool {
        if !self.due.contains_key(key) && self.due.len() >= self.most {
            return false;
        }
        self.forget(key);
        let due = self.every.map(|every| now + every);
        self.due.insert(key.clone(), due);
        self.queue.extend(due.map(|due| (due, key.clone())));
        true
    }

    pub(super) fn forget(&mut self, key: &RecordKey) {
        if let Some(Some(due)) = self.due.remove(key) {
            self.queue.remove(&(due, key.clone()));
        }
    }

    /// The next key to be told again, if its time has come.
    pub(super) fn next(&mut self, now: Instant) -> Option<RecordKey> {
        let (due, key) = self.queue.first()?;
        (*due <= now).then(|| key.clone())
    }
}

/// The publications under way.
#[derive(Default)]
pub(super) struct Publications {
    next: u64,
    /// Two at most for each publication.
    queries: HashMap<QueryId, u64>,
    /// Bounded by the permits within, and by the pace of busy_responses again.
    jobs: HashMap<u64, Job>,
}

struct Job {
    left: usize,
    stored_at: usize,
    /// Absent where we tell something again by ourselves.
    caller: Option<Caller>,
}

pub(super) struct Caller {
    pub done: oneshot::Sender<Result<Published, DhtError>>,
    pub permit: OwnedSemaphorePermit,
}

impl Publications {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Waits for these to end. Where none could be begun, the caller is told so at once.
    pub(super) fn begin(&mut self, queries: &[QueryId], caller: Option<Caller>) {
        if queries.is_empty() {
            if let Some(caller) = caller {
                let _ = caller.done.send(Err(DhtError::Full));
            }
            return;
        }
        let id = self.next;
        self.next += 1;
        self.queries
            .extend(queries.iter().map(|query| (*query, id)));
        let job = Job {
            left: queries.len(),
            stored_at: 0,
            caller,
        };
        self.jobs.insert(id, job);
    }

    /// Notes the end of one query, which stored the record at so many nodes.
    pub(super) fn ended(&mut self, query: QueryId, stored_at: usize, alone: bool, stats: &Stats) {
        let Some(id) = self.queries.remove(&query) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.left -= 1;
        job.stored_at += stored_at;
        if job.left > 0 {
            return;
        }
        let Some(job) = self.jobs.remove(&id) else {
            return;
        };
        let counts = &stats.counts;
        count(if alone {
            &counts.unpublished
        } else {
            &counts.published
        });
        if let Some(caller) = job.caller {
            let stored_at = job.stored_at;
            // Who does not wait any more needs no answer.
            let _ = caller.done.send(Ok(Published { stored_at }));
            drop(caller.permit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> RecordKey {
        RecordKey::new(text).unwrap()
    }

    #[test]
    fn what_is_told_is_told_anew_when_its_time_comes_and_not_when_withdrawn() {
        let mut own = Own::new(2, Some(Duration::from_secs(10)));
        let now = Instant::now();
        assert!(own.told(&key("a"), now));
        assert!(own.told(&key("b"), now + Duration::from_secs(1)));
        assert!(!own.told(&key("c"), now), "there is room for two");
        assert!(own.told(&key("a"), now), "which are these");
        assert_eq!(own.next(now + Duration::from_secs(9)), None);
        let later = now + Duration::from_secs(10);
        assert_eq!(own.next(later), Some(key("a")));
        own.told(&key("a"), later);
        assert_eq!(own.next(later), None);
        own.forget(&key("b"));
        assert_eq!(own.next(later + Duration::from_secs(5)), None);
        assert_eq!(own.queue.len(), 1);
    }
}
