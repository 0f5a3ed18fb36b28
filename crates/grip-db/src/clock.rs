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

/// What the database's host said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerTime {
    pub(crate) ms: i64,
    /// By how much it may be wrong, because the answer took its time.
    pub(crate) uncertainty_ms: i64,
}

/// Two readings differ by less where nobody set the clock.
const JITTER_MS: i64 = 500;

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

    /// Takes over what was read, unless it says nothing new: each reading shakes a little, and
    /// one that took long says little.
    pub(crate) fn adjust(&self, ServerTime { ms, uncertainty_ms }: ServerTime) {
        let is_old = self.reading.lock().at.elapsed() >= Self::EVERY;
        let most = JITTER_MS.saturating_add(uncertainty_ms).unsigned_abs();
        if (is_old && uncertainty_ms < JITTER_MS) || ms.abs_diff(self.now_ms()) > most {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_answer_moves_the_clock_only_where_it_proves_that_it_is_wrong() {
        let clock = Clock::new(1_000_000);
        let heard = |ms, uncertainty_ms| ServerTime { ms, uncertainty_ms };
        // The clock goes on while this is tested, by much less than a second.
        let shows = |ms: i64| (0..900).contains(&(clock.now_ms() - ms));
        clock.adjust(heard(1_004_000, 4_000));
        assert!(shows(1_000_000));
        clock.adjust(heard(1_004_000, 10));
        assert!(shows(1_004_000));
        clock.adjust(heard(500_000, 4_000));
        assert!(shows(500_000));
        // However old the last reading is.
        clock.reading.lock().at -= Clock::EVERY;
        clock.adjust(heard(530_400, 4_000));
        assert!(clock.reading.lock().at.elapsed() >= Clock::EVERY);
        clock.adjust(heard(530_400, 10));
        assert!(clock.reading.lock().at.elapsed() < Clock::EVERY);
    }
}
