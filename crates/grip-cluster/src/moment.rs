//! Moments by two clocks.
//!
//! The monotonic clock stands still while the machine sleeps, and the clock of the day can be set back.
//! Of what both say since a moment, the longer counts: who asks whether a right has run out is told so
//! rather too early.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    monotonic: Instant,
    day: SystemTime,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            day: SystemTime::now(),
        }
    }

    /// The time that has passed since.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    fn since(self, earlier: Self) -> Duration {
        let day = self.day.duration_since(earlier.day).unwrap_or_default();
        self.monotonic.duration_since(earlier.monotonic).max(day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_both_clocks_counts() {
        let began = Moment::now();
        let (short, long) = (Duration::from_secs(1), Duration::from_secs(60));
        let after_sleep = Moment {
            monotonic: began.monotonic + short,
            day: began.day + long,
        };
        assert_eq!(after_sleep.since(began), long);
        let set_back = Moment {
            monotonic: began.monotonic + long,
            day: began.day - long,
        };
        assert_eq!(set_back.since(began), long);
    }
}
