//! Bounds of due times, and detection of a clock that was set back.

use std::time::Duration;

use tokio::time::Instant;

/// The longest lease; a longer one is cut to it.
pub const LONGEST_LEASE: Duration = Duration::from_secs(60 * 60);
const SHORTEST_LEASE: Duration = Duration::from_millis(10);
/// How far ahead a job without a period may be due.
pub(crate) const HORIZON_MS: i64 = 24 * 60 * 60 * 1_000;
/// The end of time: no claim sees it.
pub(crate) const NEVER: i64 = i64::MAX;

/// The longest time that counts; added to any time it stays within the numbers of the database.
const LONGEST_MS: i64 = i64::MAX / 4;

pub(crate) fn millis(duration: Duration) -> i64 {
    let ms = i64::try_from(duration.as_millis()).unwrap_or(LONGEST_MS);
    ms.min(LONGEST_MS)
}

pub(crate) fn lease_length(lease: Duration) -> Duration {
    lease.clamp(SHORTEST_LEASE, LONGEST_LEASE)
}

/// The latest time at which a job may be due.
pub(crate) fn latest_due(now_ms: i64, period_ms: Option<i64>) -> i64 {
    now_ms.saturating_add(HORIZON_MS.max(period_ms.unwrap_or(0)))
}

/// Notices when the clock of the database was set back.
pub(crate) struct Watch {
    at: Instant,
    ms: i64,
}

impl Watch {
    /// A clock that is read again differs by less.
    const SHAKE_MS: i64 = 5_000;

    pub(crate) fn new(now_ms: i64) -> Self {
        let at = Instant::now();
        Self { at, ms: now_ms }
    }

    /// Whether that happened since it was asked last.
    pub(crate) fn was_set_back(&mut self, now_ms: i64) -> bool {
        let expected = self.ms.saturating_add(millis(self.at.elapsed()));
        *self = Self::new(now_ms);
        now_ms < expected - Self::SHAKE_MS
    }
}
