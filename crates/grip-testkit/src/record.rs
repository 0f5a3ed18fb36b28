//! Record of a fake host: every request, and how many were under way at that moment.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

#[derive(Debug)]
pub(crate) struct Record<T> {
    seen: Mutex<Vec<Arc<Mutex<T>>>>,
    in_flight: Arc<AtomicUsize>,
}

impl<T> Default for Record<T> {
    fn default() -> Self {
        Self {
            seen: Mutex::default(),
            in_flight: Arc::default(),
        }
    }
}

impl<T: Clone> Record<T> {
    /// Notes a request, which is told how many are in flight with it; it is one of them until the
    /// returned value is dropped.
    pub(crate) fn arrived(&self, seen: impl FnOnce(usize) -> T) -> UnderWay<T> {
        let mut all = self.seen.lock();
        let in_flight = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        let seen = Arc::new(Mutex::new(seen(in_flight)));
        all.push(Arc::clone(&seen));
        UnderWay {
            seen,
            in_flight,
            count: Arc::clone(&self.in_flight),
        }
    }

    pub(crate) fn all(&self) -> Vec<T> {
        let all = self.seen.lock();
        all.iter().map(|seen| seen.lock().clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    pub(crate) fn clear(&self) {
        self.seen.lock().clear();
    }
}

/// A request whose response has not ended.
#[derive(Debug)]
pub(crate) struct UnderWay<T> {
    seen: Arc<Mutex<T>>,
    pub(crate) in_flight: usize,
    count: Arc<AtomicUsize>,
}

impl<T> UnderWay<T> {
    /// Adds what is known of the request by now.
    pub(crate) fn update(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.seen.lock());
    }
}

impl<T> Drop for UnderWay<T> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}
