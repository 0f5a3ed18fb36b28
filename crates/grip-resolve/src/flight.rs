//! Resolutions that wait or are under way: one for each key, however many ask.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};

use crate::{Key, ResolveError, cache::Answer};

/// Resolutions that wait for a worker. Beyond it new ones are refused.
pub const QUEUE: usize = 512;

pub(crate) type Outcome = Result<Arc<Answer>, ResolveError>;
pub(crate) type Waiting = watch::Receiver<Option<Outcome>>;

/// A key, and whether the network is to be asked even if the answer is here.
pub(crate) type Wish = (Key, bool);

/// Bounded by the queue and the workers: every flight is a job in one of them.
type Aloft = Arc<Mutex<HashMap<Wish, Waiting>>>;

pub(crate) struct Flights {
    aloft: Aloft,
    queue: mpsc::Sender<Job>,
}

/// Whether a flight was begun or joined.
pub(crate) enum Boarded {
    Began(Waiting),
    Joined(Waiting),
}

/// One resolution to be done. Dropped undone, it is cancelled.
pub(crate) struct Job {
    pub wish: Wish,
    pub deadline: Instant,
    outcome: watch::Sender<Option<Outcome>>,
    aloft: Aloft,
}

impl Flights {
    pub fn new() -> (Self, mpsc::Receiver<Job>) {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let aloft = Aloft::default();
        (Self { aloft, queue }, jobs)
    }

    /// Joins the flight of `wish`, or begins it; none if the queue is full.
    pub fn board(&self, wish: &Wish, deadline: Instant) -> Option<Boarded> {
        let mut aloft = self.aloft.lock();
        if let Some(waiting) = aloft.get(wish) {
            return Some(Boarded::Joined(waiting.clone()));
        }
        let place = self.queue.try_reserve().ok()?;
        let (outcome, waiting) = watch::channel(None);
        aloft.insert(wish.clone(), waiting.clone());
        place.send(Job {
            wish: wish.clone(),
            deadline,
            outcome,
            aloft: Arc::clone(&self.aloft),
        });
        Some(Boarded::Began(waiting))
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

    /// Nobody can join it any more before those who wait are told.
    fn end(&self, outcome: Outcome) {
        self.aloft.lock().remove(&self.wish);
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
