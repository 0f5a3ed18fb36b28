//! Value that is swapped whole while others read it.

use crate::primitives::{Arc, Mutex};

/// A value that readers see as it was before a change or as it is after, never in between.
///
/// The lock is held for as long as it takes to copy a pointer, or to make the next value.
#[derive(Debug)]
pub struct Live<T> {
    now: Mutex<Arc<T>>,
}

impl<T> Live<T> {
    pub fn new(value: T) -> Self {
        Self {
            now: Mutex::new(Arc::new(value)),
        }
    }

    /// The value of this moment; it stays as it is for its holders.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.now.lock())
    }

    /// Swaps in `value` for all who ask from now on.
    pub fn set(&self, value: T) {
        let value = Arc::new(value);
        let before = std::mem::replace(&mut *self.now.lock(), value);
        // Outside the lock: it may be the last holder, and large.
        drop(before);
    }

    /// The value of this moment if it `fits`, or one that is made in its place: once, however
    /// many ask at the same time.
    pub fn renew(&self, fits: impl FnOnce(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
        let mut now = self.now.lock();
        if fits(&now) {
            return Arc::clone(&now);
        }
        let made = Arc::new(make());
        let before = std::mem::replace(&mut *now, Arc::clone(&made));
        drop(now);
        drop(before);
        made
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn holders_keep_the_old_value_and_later_readers_get_the_new_one() {
        let live = Live::new(1);
        let held = live.get();
        live.set(2);
        assert_eq!((*held, *live.get()), (1, 2));
    }

    #[test]
    fn a_value_that_fits_stays_and_one_that_does_not_is_replaced() {
        let live = Live::new(1);
        assert_eq!(*live.renew(|now| *now == 1, || unreachable!()), 1);
        assert_eq!(*live.renew(|now| *now == 7, || 7), 7);
        assert_eq!(*live.get(), 7);
    }
}
