//! Randomness of lookups: when to hedge, and when to try again.

use std::time::Duration;

use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// Shared by all lookups of a node. Seeded by the system, or by a number where a run is to be
/// repeated.
pub(crate) struct Random(Mutex<StdRng>);

impl Random {
    /// The same numbers for the same seed.
    #[cfg(test)]
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    /// Give or take a fifth, so that many nodes do not hedge at the same moment.
    pub fn jittered(&self, wait: Duration) -> Duration {
        wait.mul_f64(self.0.lock().random_range(0.8..=1.2))
    }

    /// How long to wait before a request is sent again.
    pub fn retry_wait(&self) -> Duration {
        Duration::from_millis(self.0.lock().random_range(50..=100))
    }
}

impl Default for Random {
    fn default() -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(rand::random())))
    }
}
