//! The pace of the search.

use std::{fmt, sync::Arc, time::Duration};

use grip_limits::QueueBounds;

use crate::download_budget::DownloadLimits;

/// The pace of the search. All have a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// Longest sleep shortly before an attempt is due, in case the clock is set meanwhile; default
    /// 1 s. Attempts do not wait for it: the loop sleeps until one is due or something changes.
    pub loop_interval: Duration,
    /// Most tasks at once, at least two; default 64. A quarter of them is for identifiers that are
    /// due, a quarter for those whose host has capacity again, and the rest for those whose host is
    /// slow.
    pub max_tasks: usize,
    /// How long an answer may take before its task counts as slow; default 2 s.
    pub patience: Duration,
    /// Most identifiers that wait for capacity; those beyond are tried again after their backoff.
    pub queues: QueueBounds,
    pub backoff: Backoff,
    pub url_pause: UrlPause,
    /// How much events may make us download.
    pub downloads: DownloadLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            loop_interval: Duration::from_secs(1),
            max_tasks: 64,
            patience: Duration::from_secs(2),
            queues: QueueBounds::default(),
            backoff: Backoff::default(),
            url_pause: UrlPause::default(),
            downloads: DownloadLimits::default(),
        }
    }
}

/// How long a URL is left alone, by all identifiers, that answered and had nothing for us: the
/// pause doubles each time until something comes.
///
/// It follows the waits of one identifier and goes no further: many who name a URL ask it no more
/// often than one of them would, and nobody can keep it from the others by naming it for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlPause {
    /// Default 20 s.
    pub first: Duration,
    /// Default 120 s.
    pub longest: Duration,
}

impl Default for UrlPause {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(20),
            longest: Duration::from_secs(120),
        }
    }
}

/// A number from 0 to 1.
pub type Random = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Waits that double from `first` to `longest`, give or take `jitter_percent`, so that what failed
/// together is not tried again together.
#[derive(Clone)]
pub struct Backoff {
    /// Default 20 s.
    pub first: Duration,
    /// Default 120 s.
    pub longest: Duration,
    /// Default 10.
    pub jitter_percent: u32,
    pub random: Random,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(20),
            longest: Duration::from_secs(120),
            jitter_percent: 10,
            random: Arc::new(rand::random::<f64>),
        }
    }
}

impl Backoff {
    /// The wait after an attempt that did not bring everything, the `count`-th such.
    pub fn delay(&self, count: u32) -> Duration {
        let doublings = count.saturating_sub(1).min(31);
        let base = self.first.saturating_mul(1 << doublings).min(self.longest);
        let spread = f64::from(self.jitter_percent.min(100)) / 100.0;
        let chance = (self.random)().clamp(0.0, 1.0);
        base.mul_f64(1.0 + spread * (2.0 * chance - 1.0))
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff")
            .field("first", &self.first)
            .field("longest", &self.longest)
            .field("jitter_percent", &self.jitter_percent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(chance: f64) -> Backoff {
        Backoff {
            random: Arc::new(move || chance),
            ..Backoff::default()
        }
    }

    fn seconds(backoff: &Backoff) -> Vec<f64> {
        let delays = (1..=6).map(|count| backoff.delay(count).as_secs_f64());
        delays.collect()
    }

    #[test]
    fn backoff_doubles_up_to_cap() {
        let steady = [20.0, 40.0, 80.0, 120.0, 120.0, 120.0];
        assert_eq!(seconds(&with(0.5)), steady);
        assert_eq!(with(0.5).delay(0), Duration::from_secs(20));
        assert_eq!(with(0.5).delay(u32::MAX), Duration::from_secs(120));
    }

    #[test]
    fn jitter_moves_each_wait_by_a_tenth_at_most() {
        assert_eq!(seconds(&with(0.0)), [18.0, 36.0, 72.0, 108.0, 108.0, 108.0]);
        assert_eq!(seconds(&with(1.0)), [22.0, 44.0, 88.0, 132.0, 132.0, 132.0]);
    }

    proptest! {
        #[test]
        fn any_wait_is_near_its_place_in_the_row(count in 0u32.., chance in -1.0f64..2.0) {
            let (wait, steady) = (with(chance).delay(count), with(0.5).delay(count));
            prop_assert!(wait >= steady.mul_f64(0.899) && wait <= steady.mul_f64(1.101));
        }

        #[test]
        fn chance_spreads_what_failed_together(count in 1u32..10) {
            let backoff = Backoff::default();
            let waits: std::collections::HashSet<_> = (0..50).map(|_| backoff.delay(count)).collect();
            prop_assert!(waits.len() > 25);
        }
    }
}
