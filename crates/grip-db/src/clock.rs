//! One clock for all instances.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// Milliseconds since 1970, as the database's host counts them: read now and then, and counted on
/// in between, so that the instances agree and a clock that is set does not shake each reading.
pub(crate) struct Clock {
    reading: Mutex<Reading>,
    /// What a test adds to each reading.
    shift_ms: AtomicI64,
}

#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    ms: i64,
}

/// Two readings differ by less where nobody set the clock.
const SHAKE_MS: u64 = 500;

impl Clock {
    /// How often the clock is read.
    pub(crate) const EVERY: Duration = Duration::from_secs(30);

    pub(crate) fn new(ms: i64) -> Self {
        let reading = Reading {
            at: Instant::now(),
            ms,
        };
        Self {
            reading: Mutex::new(reading),
            shift_ms: AtomicI64::new(0),
        }
    }

    pub(crate) fn set(&self, ms: i64) {
        let at = Instant::now();
        *self.reading.lock() = Reading { at, ms };
    }

    /// Takes over what was read, unless it says nothing new: each reading shakes a little.
    pub(crate) fn hear(&self, ms: i64) {
        let is_old = self.reading.lock().at.elapsed() >= Self::EVERY;
        if is_old || ms.abs_diff(self.now_ms()) > SHAKE_MS {
            self.set(ms);
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        let Reading { at, ms } = *self.reading.lock();
        ms.saturating_add(millis(at.elapsed()))
            .saturating_add(self.shift_ms.load(Ordering::Relaxed))
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn shift(&self, ms: i64) {
        self.shift_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

/// What this host's own clock says.
pub(crate) fn system_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, millis)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
