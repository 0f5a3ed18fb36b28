//! Every call, and how many there were at that moment.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use tokio::time::Instant;

/// One call.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub method: String,
    /// Below the API's base, with a slash at the beginning.
    pub path: String,
    pub query: String,
    /// The number of the token; none without one, or with one that is unknown.
    pub token: Option<usize>,
    /// Whether it asked for changes only.
    pub conditional: bool,
    /// What was answered; 0 for what is not answered yet.
    pub status: u16,
    /// Calls under way when this one came, itself included.
    pub in_flight: usize,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    seen: Mutex<Vec<Arc<Mutex<Seen>>>>,
    in_flight: Arc<AtomicUsize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Record {
    /// Notes a call; it is in flight until the returned value is dropped.
    pub(super) fn arrived(&self, mut seen: Seen) -> UnderWay {
        let mut all = lock(&self.seen);
        seen.in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        let in_flight = seen.in_flight;
        let seen = Arc::new(Mutex::new(seen));
        all.push(Arc::clone(&seen));
        UnderWay {
            seen,
            in_flight,
            count: Arc::clone(&self.in_flight),
        }
    }

    pub(super) fn all(&self) -> Vec<Seen> {
        let all = lock(&self.seen);
        all.iter().map(|seen| lock(seen).clone()).collect()
    }

    pub(super) fn count(&self) -> usize {
        lock(&self.seen).len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    pub(super) fn clear(&self) {
        lock(&self.seen).clear();
    }
}

/// A call that is not answered yet.
#[derive(Debug)]
pub(super) struct UnderWay {
    seen: Arc<Mutex<Seen>>,
    pub(super) in_flight: usize,
    count: Arc<AtomicUsize>,
}

impl UnderWay {
    pub(super) fn answered(self, status: u16) {
        lock(&self.seen).status = status;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}
