//! Points in time.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

use grip_nostr::Timestamp;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970, UTC. Sums stop at the far end instead of wrapping.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(i64);

impl Millis {
    pub const fn new(unix_ms: i64) -> Self {
        Self(unix_ms)
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    /// The time since `earlier`, zero if that is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        let ms = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }
}

impl Add<Duration> for Millis {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(ms))
    }
}

impl Sub<Duration> for Millis {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        let ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(ms))
    }
}

impl From<Timestamp> for Millis {
    fn from(timestamp: Timestamp) -> Self {
        let ms = timestamp.as_secs().saturating_mul(1000);
        Self(i64::try_from(ms).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
