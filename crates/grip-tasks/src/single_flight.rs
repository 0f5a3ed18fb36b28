//! Single flight: one piece of work per key, shared by all who ask for it, from a bounded queue.
//!
//! Invariants:
//! - While a key is in flight it is one job, however many callers wait for it.
//! - A caller that was let in is answered: with the value, or with none if the job was dropped.
//! - What finds the queue full or closed is refused at once, and nothing of it stays.
//! - A job that was queued before the queue was closed still comes out of it.

use std::{collections::HashMap, hash::Hash};

use crate::primitives::{Arc, Mutex, mpsc, watch};

/// Starts and joins flights.
///
/// `K` names the work, `C` is what its starter gives along, `V` the value that all callers get.
pub struct SingleFlight<K: Clone + Eq + Hash, C, V> {
    in_flight: InFlight<K, C, V>,
    queue: mpsc::Sender<Job<K, C, V>>,
}

/// The jobs that no worker has begun, in the order of their start.
pub struct Jobs<K: Clone + Eq + Hash, C, V>(mpsc::Receiver<Job<K, C, V>>);

/// One piece of work to be done; dropping it unfinished leaves its callers without a value.
pub struct Job<K: Clone + Eq + Hash, C, V> {
    pub key: K,
    pub context: C,
    outcome: watch::Sender<Option<V>>,
    in_flight: InFlight<K, C, V>,
    ended: bool,
}

/// A flight that a caller waits for.
pub struct Flight<C, V> {
    /// As its starter gave it.
    pub context: C,
    /// It was in flight before.
    pub is_joined: bool,
    outcome: watch::Receiver<Option<V>>,
}

/// Why nothing was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many jobs wait as may.
    Full,
    /// No further job is taken.
    Closed,
}

/// Bounded by the queue and the workers: every entry is a job in one of them.
type InFlight<K, C, V> = Arc<Mutex<HashMap<K, Entry<C, V>>>>;

struct Entry<C, V> {
    context: C,
    outcome: watch::Receiver<Option<V>>,
    /// What its value is made of has changed since it began.
    is_outdated: bool,
}

impl<K: Clone + Eq + Hash, C: Clone, V: Clone> SingleFlight<K, C, V> {
    /// At most `capacity` jobs wait for a worker.
    pub fn new(capacity: usize) -> (Self, Jobs<K, C, V>) {
        let (queue, jobs) = mpsc::channel(capacity);
        let in_flight = Arc::new(Mutex::new(HashMap::new()));
        (Self { in_flight, queue }, Jobs(jobs))
    }

    /// Joins the flight of `key` without starting one.
    pub fn join(&self, key: &K) -> Option<Flight<C, V>> {
        let in_flight = self.in_flight.lock();
        in_flight.get(key).map(Entry::join)
    }

    /// Joins the flight of `key`, or starts it with `context`.
    pub fn join_or_start(&self, key: &K, context: C) -> Result<Flight<C, V>, Refused> {
        let mut in_flight = self.in_flight.lock();
        if let Some(entry) = in_flight.get(key) {
            return Ok(entry.join());
        }
        let permit = self.queue.try_reserve().map_err(|error| match error {
            mpsc::error::TrySendError::Full(()) => Refused::Full,
            mpsc::error::TrySendError::Closed(()) => Refused::Closed,
        })?;
        let (outcome, waiting) = watch::channel(None);
        let entry = Entry {
            context: context.clone(),
            outcome: waiting.clone(),
            is_outdated: false,
        };
        in_flight.insert(key.clone(), entry);
        permit.send(Job {
            key: key.clone(),
            context: context.clone(),
            outcome,
            in_flight: Arc::clone(&self.in_flight),
            ended: false,
        });
        Ok(Flight {
            context,
            is_joined: false,
            outcome: waiting,
        })
    }

    /// Marks the flights of these keys: see [`Job::is_outdated`].
    pub fn outdate(&self, is_outdated: impl Fn(&K) -> bool) {
        for (key, entry) in self.in_flight.lock().iter_mut() {
            entry.is_outdated |= is_outdated(key);
        }
    }

    /// Jobs that wait for a worker.
    pub fn queued(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Jobs that wait or are being done.
    pub fn in_flight(&self) -> usize {
        self.in_flight.lock().len()
    }
}

impl<C: Clone, V: Clone> Entry<C, V> {
    fn join(&self) -> Flight<C, V> {
        Flight {
            context: self.context.clone(),
            is_joined: true,
            outcome: self.outcome.clone(),
        }
    }
}

impl<C, V: Clone> Flight<C, V> {
    /// Waits for the value; none if the job was dropped. Cancel safe.
    pub async fn wait(mut self) -> Option<V> {
        let landed = self.outcome.wait_for(Option::is_some).await;
        landed.ok().and_then(|value| (*value).clone())
    }
}

impl<K: Clone + Eq + Hash, C, V> Jobs<K, C, V> {
    /// The next job; none once the queue is closed and empty. Cancel safe.
    pub async fn next(&mut self) -> Option<Job<K, C, V>> {
        self.0.recv().await
    }

    /// Takes no further job. Those that were taken are still to come from [`Jobs::next`], also
    /// one that is on its way into the queue at this moment.
    pub fn close(&mut self) {
        self.0.close();
    }
}

impl<K: Clone + Eq + Hash, C, V> Job<K, C, V> {
    /// Whether what the value is made of has changed since the job began.
    pub fn is_outdated(&self) -> bool {
        let in_flight = self.in_flight.lock();
        let entry = in_flight.get(&self.key);
        entry.is_none_or(|entry| entry.is_outdated)
    }

    /// Gives all callers the value.
    pub fn finish(mut self, value: V) {
        self.leave();
        self.outcome.send_replace(Some(value));
    }

    /// Before the value is there, so that no caller joins a flight that has ended.
    fn leave(&mut self) {
        self.ended = true;
        let entry = self.in_flight.lock().remove(&self.key);
        // Outside the lock: it may be the last holder of what its context refers to.
        drop(entry);
    }
}

impl<K: Clone + Eq + Hash, C, V> Drop for Job<K, C, V> {
    fn drop(&mut self) {
        if !self.ended {
            self.leave();
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    type Flights = SingleFlight<&'static str, u32, u32>;

    #[tokio::test]
    async fn callers_of_one_key_share_one_job_and_its_value() {
        let (flights, mut jobs) = Flights::new(4);
        let first = flights.join_or_start(&"a", 1).unwrap();
        let second = flights.join_or_start(&"a", 2).unwrap();
        assert_eq!((first.is_joined, second.is_joined), (false, true));
        assert_eq!(second.context, 1, "what its starter gave");
        assert_eq!((flights.queued(), flights.in_flight()), (1, 1));
        let job = jobs.next().await.unwrap();
        assert_eq!((flights.queued(), flights.in_flight()), (0, 1));
        job.finish(7);
        assert_eq!(
            (first.wait().await, second.wait().await),
            (Some(7), Some(7))
        );
        assert_eq!(flights.in_flight(), 0);
    }

    #[tokio::test]
    async fn a_job_that_is_dropped_leaves_its_callers_without_a_value() {
        let (flights, mut jobs) = Flights::new(1);
        let flight = flights.join_or_start(&"a", 1).unwrap();
        drop(jobs.next().await);
        assert_eq!(flight.wait().await, None);
        assert!(flights.join(&"a").is_none());
    }

    #[tokio::test]
    async fn a_full_queue_and_a_closed_one_refuse_new_keys_and_keep_what_they_took() {
        let (flights, mut jobs) = Flights::new(1);
        let queued = flights.join_or_start(&"a", 1).unwrap();
        assert_eq!(flights.join_or_start(&"b", 1).err(), Some(Refused::Full));
        jobs.close();
        assert_eq!(flights.join_or_start(&"b", 1).err(), Some(Refused::Closed));
        jobs.next().await.unwrap().finish(3);
        assert_eq!(queued.wait().await, Some(3));
        assert!(jobs.next().await.is_none());
        assert_eq!(flights.in_flight(), 0);
    }

    #[tokio::test]
    async fn a_job_knows_that_its_key_changed_while_it_was_done() {
        let (flights, mut jobs) = Flights::new(2);
        for key in ["a", "b"] {
            flights.join_or_start(&key, 1).unwrap();
        }
        flights.outdate(|key| *key == "b");
        let (a, b) = (jobs.next().await.unwrap(), jobs.next().await.unwrap());
        assert_eq!((a.is_outdated(), b.is_outdated()), (false, true));
    }
}
