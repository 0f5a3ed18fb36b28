//! Pauses that grow: after refusals by rate, unanswered requests and failed reconciliations.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a pause is at first and at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    pub(crate) first: u64,
    pub(crate) most: u64,
    /// So long after a pause nothing must happen for the next to be a first one.
    pub(crate) calm: u64,
}

/// Rate limits and unanswered requests (G02-27, G02-28): 65 s doubling to an hour.
pub(crate) const POLITE: Growth = Growth {
    first: 65,
    most: 3_600,
    calm: 300,
};

/// Policy refusals (G02-29): a day, then one probe.
pub(crate) const POLICY_PAUSE: u64 = 86_400;

/// A pause in seconds since 1970, so that it outlives a restart (G02-48).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    until: u64,
    length: u64,
}

impl Pause {
    /// Notes a reason to pause; says for how long, where one begins. During a pause it does not make it
    /// longer.
    pub(crate) fn hit(&mut self, growth: Growth, now: u64) -> Option<Duration> {
        if self.left(growth, now).is_some() {
            return None;
        }
        let is_calm = now >= self.until.saturating_add(growth.calm);
        self.length = if self.length == 0 || is_calm {
            growth.first
        } else {
            (self.length * 2).min(growth.most)
        };
        self.until = now + self.length;
        Some(Duration::from_secs(self.length))
    }

    /// How long it lasts from now. A clock that was set back does not make it last longer than any.
    pub(crate) fn left(&self, growth: Growth, now: u64) -> Option<Duration> {
        let left = self.until.saturating_sub(now).min(growth.most);
        (left > 0).then(|| Duration::from_secs(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_27_pauses_double_to_an_hour_and_are_forgotten_after_five_calm_minutes() {
        let mut pause = Pause::default();
        let mut now = 1_000_000;
        for length in [65, 130, 260, 520, 1_040, 2_080, 3_600, 3_600] {
            pause.hit(POLITE, now);
            // Notices during the pause do not extend it.
            pause.hit(POLITE, now + 1);
            assert_eq!(pause.left(POLITE, now), Some(Duration::from_secs(length)));
            now += length;
            assert_eq!(pause.left(POLITE, now), None);
        }
        pause.hit(POLITE, now + 300);
        assert_eq!(pause.left(POLITE, now + 300), Some(Duration::from_secs(65)));
    }

    #[test]
    fn a_clock_set_back_does_not_pause_for_longer_than_ever() {
        let mut pause = Pause::default();
        pause.hit(POLITE, 1_000_000);
        assert_eq!(pause.left(POLITE, 10), Some(Duration::from_secs(3_600)));
    }
}
