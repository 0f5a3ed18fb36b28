//! Single flight: one resolution per key, shared by all concurrent callers.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::{Key, ResolveError, cache::Answer};

/// Most resolutions that wait for a worker; further ones are refused.
pub const MAX_QUEUED: usize = 512;

pub(crate) type Outcome = Result<Arc<Answer>, ResolveError>;
pub(crate) type Waiting = watch::Receiver<Option<Outcome>>;

/// A key, and whether the network is queried even if the answer is local.
pub(crate) type FlightKey = (Key, bool);

/// Bounded by the queue and the workers: every flight is a job in one of them.
type InFlight = Arc<Mutex<HashMap<FlightKey, Waiting>>>;

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
        if let Some(waiting) = in_flight.get(flight_key) {
            return Some(Flight::Joined(waiting.clone()));
        }
        let permit = self.queue.try_reserve().ok()?;
        let (outcome, waiting) = watch::channel(None);
        in_flight.insert(flight_key.clone(), waiting.clone());
        permit.send(Job {
            flight_key: flight_key.clone(),
            deadline,
            outcome,
            in_flight: Arc::clone(&self.in_flight),
        });
        Some(Flight::Started(waiting))
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
