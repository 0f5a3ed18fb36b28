//! Spacing of jobs that wait for the same rate limit.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

/// How far behind the end of a limit the line may reach; who comes later stands at its front.
const LONGEST_MS: i64 = 60 * 60 * 1_000;

/// Gives each job that waits for a source a time of its own.
pub(crate) struct RetrySpacing {
    step_ms: i64,
    /// The latest time given out, by source: as many as there are.
    last: Mutex<HashMap<String, i64>>,
}

impl RetrySpacing {
    pub(crate) fn new(step: Duration) -> Self {
        Self {
            step_ms: i64::try_from(step.as_millis()).unwrap_or(LONGEST_MS),
            last: Mutex::default(),
        }
    }

    /// The time of one more job that has to wait until `until_ms` at least.
    pub(crate) fn retry_at(&self, source: &str, until_ms: i64) -> i64 {
        let mut all = self.last.lock();
        let last = all.entry(source.to_owned()).or_insert(until_ms);
        let next = last.saturating_add(self.step_ms);
        let fits = (until_ms..until_ms.saturating_add(LONGEST_MS)).contains(&next);
        *last = if fits { next } else { until_ms };
        *last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_for_one_limit_stand_in_a_line() {
        let spacing = RetrySpacing::new(Duration::from_millis(10));
        let times: Vec<_> = (0..3).map(|_| spacing.retry_at("a", 1_000)).collect();
        assert_eq!(times, [1_010, 1_020, 1_030]);
        assert_eq!(spacing.retry_at("b", 1_000), 1_010);
    }

    #[test]
    fn a_later_limit_begins_a_new_line() {
        let spacing = RetrySpacing::new(Duration::from_millis(10));
        spacing.retry_at("a", 1_000);
        assert_eq!(spacing.retry_at("a", 9_000), 9_000);
        assert_eq!(spacing.retry_at("a", 9_000), 9_010);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let spacing = RetrySpacing::new(Duration::from_secs(1_000));
        for _ in 0..1_000 {
            assert!(spacing.retry_at("a", 1_000) < 1_000 + LONGEST_MS);
        }
    }
}
