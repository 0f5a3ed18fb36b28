//! Single flight: one resolution per key, shared by all concurrent callers.
//!
//! Invariant: an answer that was resolved before its key was forgotten is not cached after.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::{
    Key, ResolveError,
    cache::{Answer, Cache},
};

/// Most resolutions that wait for a worker; further ones are refused.
pub const MAX_QUEUED: usize = 512;

pub(crate) type Outcome = Result<Arc<Answer>, ResolveError>;
pub(crate) type Waiting = watch::Receiver<Option<Outcome>>;

/// A key, and whether the network is queried even if the answer is local.
pub(crate) type FlightKey = (Key, bool);

/// Bounded by the queue and the workers: every flight is a job in one of them.
type InFlight = Arc<Mutex<HashMap<FlightKey, InFlightJob>>>;

struct InFlightJob {
    waiting: Waiting,
    /// Its key was forgotten after it had started.
    is_outdated: bool,
}

pub(crate) struct SingleFlight {
    in_flight: InFlight,
    queue: mpsc::Sender<Job>,
}

/// A resolution that was started or joined.
pub(crate) enum Flight {
    Started(Waiting),
    Joined(Waiting),
}

/// One resolution to be done; dropping it unfinished cancels it.
pub(crate) struct Job {
    pub flight_key: FlightKey,
    pub deadline: Instant,
    outcome: watch::Sender<Option<Outcome>>,
    in_flight: InFlight,
}

impl SingleFlight {
    pub fn new() -> (Self, mpsc::Receiver<Job>) {
        let (queue, jobs) = mpsc::channel(MAX_QUEUED);
        let in_flight = InFlight::default();
        (Self { in_flight, queue }, jobs)
    }

    /// Joins the resolution of a key, or starts it; none if the queue is full.
    pub fn join_or_start(&self, flight_key: &FlightKey, deadline: Instant) -> Option<Flight> {
        let mut in_flight = self.in_flight.lock();
        if let Some(job) = in_flight.get(flight_key) {
            return Some(Flight::Joined(job.waiting.clone()));
        }
        let permit = self.queue.try_reserve().ok()?;
        let (outcome, waiting) = watch::channel(None);
        let job = InFlightJob {
            waiting: waiting.clone(),
            is_outdated: false,
        };
        in_flight.insert(flight_key.clone(), job);
        permit.send(Job {
            flight_key: flight_key.clone(),
            deadline,
            outcome,
            in_flight: Arc::clone(&self.in_flight),
        });
        Some(Flight::Started(waiting))
    }

    /// Keeps the answers that are in flight for `key`, or for all keys, out of the cache.
    ///
    /// To be called before the cache forgets: then either an answer is not put there, or it is
    /// removed by the cache or by [`Job::cache`].
    pub fn outdate(&self, key: Option<&Key>) {
        for ((of, _), job) in self.in_flight.lock().iter_mut() {
            job.is_outdated |= key.is_none_or(|key| key == of);
        }
    }

    /// Jobs that wait for a worker.
    pub fn depth(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}

impl Job {
    /// Caches an outcome unless its key was forgotten meanwhile; an answer is joined with the
    /// cached one.
    pub async fn cache(&self, cache: &Cache, outcome: Outcome) -> Outcome {
        if self.is_outdated() {
            return outcome;
        }
        let key = &self.flight_key.0;
        let outcome = match outcome {
            Ok(answer) => Ok(cache.put(key, answer).await),
            Err(ResolveError::Unknown) => {
                cache.put_unknown(key).await;
                Err(ResolveError::Unknown)
            }
            Err(error) => return Err(error),
        };
        if self.is_outdated() {
            cache.forget(key).await;
        }
        outcome
    }

    fn is_outdated(&self) -> bool {
        let in_flight = self.in_flight.lock();
        let job = in_flight.get(&self.flight_key);
        job.is_none_or(|job| job.is_outdated)
    }

    pub fn finish(self, outcome: Outcome) {
        self.end(outcome);
    }

    /// Removed first, so that no caller joins a resolution that has ended.
    fn end(&self, outcome: Outcome) {
        self.in_flight.lock().remove(&self.flight_key);
        self.outcome.send_replace(Some(outcome));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.outcome.borrow().is_none() {
            self.end(Err(ResolveError::Canceled));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grip_testkit::Author;

    use super::*;
    use crate::{Options, Source, cache::CacheLookup, testing::manifest_of};

    #[tokio::test]
    async fn what_was_resolved_before_a_key_was_forgotten_is_not_cached_after() {
        let (cache, (flights, mut jobs)) = (Cache::new(1 << 20), SingleFlight::new());
        let author = Author::new();
        let [manifest, other] = ["x", "y"].map(|name| manifest_of(&author, name, 1));
        let answer = Arc::new(Answer {
            manifest: manifest.clone(),
            providers: Vec::new(),
            source: Source::Dht,
            hops: 1,
            asked: 1,
        });
        let (key, other) = (Key::Name(manifest.name()), Key::Name(other.name()));
        let deadline = Instant::now() + Duration::from_secs(9);
        let outdated = [None, Some(&other), Some(&key), None];
        for (forgotten, is_cached) in outdated.into_iter().zip([true, true, false, false]) {
            for outcome in [Ok(Arc::clone(&answer)), Err(ResolveError::Unknown)] {
                assert!(
                    flights
                        .join_or_start(&(key.clone(), true), deadline)
                        .is_some()
                );
                let job = jobs.recv().await.unwrap();
                if !is_cached || forgotten.is_some() {
                    flights.outdate(forgotten);
                    cache.forget(&key).await;
                }
                let kept = job.cache(&cache, outcome.clone()).await;
                assert_eq!(
                    kept.map(|it| it.manifest.id()),
                    outcome.map(|it| it.manifest.id())
                );
                let look = cache.look(&key, &Options::default()).await;
                assert_eq!(
                    !matches!(look, CacheLookup::Miss),
                    is_cached,
                    "{forgotten:?}"
                );
            }
        }
    }
}
