//! The health of a connection: when a relay is dialled next (G02-39 … G02-41, G02-45).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A connection counts as stable after so long.
const STABLE: u64 = 300;
/// Without success for so long a relay is dead, and dialled once in so long.
const DAY: u64 = 86_400;

/// When relays that failed are dialled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// First pause: 5 s.
    pub base: Duration,
    /// Longest pause: an hour.
    pub most: Duration,
    /// How long an address that is no relay is left alone: 12 h.
    pub faulty: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(5),
            most: Duration::from_secs(3_600),
            faulty: Duration::from_secs(12 * 3_600),
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The name leads nowhere, TLS fails, or what answers is no relay, or a hostile one.
    Faulty,
    /// Anything that may pass.
    Failed,
}

/// How a relay did, in seconds since 1970; part of what survives a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Health {
    /// Failures in a row; a short connection does not end the row.
    failures: u32,
    connected_at: Option<u64>,
    /// The last moment at which a connection was there.
    last_success: Option<u64>,
    /// The first failure since.
    failing_since: Option<u64>,
    next_dial: u64,
}

impl Health {
    pub(crate) fn connected(&mut self, now: u64) {
        self.connected_at = Some(now);
        self.last_success = Some(now);
        self.failing_since = None;
    }

    pub(crate) fn lost(&mut self, loss: Loss, backoff: &Backoff, now: u64) {
        let was_connected = self.connected_at.take();
        if let Some(since) = was_connected {
            self.last_success = Some(now);
            if now.saturating_sub(since) >= STABLE {
                self.failures = 0;
            }
        }
        let failing_since = *self.failing_since.get_or_insert(now);
        let doubled = 1_u32.checked_shl(self.failures.min(30)).unwrap_or(u32::MAX);
        let pause = backoff.base.saturating_mul(doubled).min(backoff.most);
        self.failures = self.failures.saturating_add(1);
        let pause = if loss == Loss::Faulty {
            backoff.faulty.as_secs()
        } else if now.saturating_sub(failing_since) >= DAY {
            DAY
        } else {
            pause.as_secs()
        };
        self.next_dial = now + pause;
    }

    /// Puts the next dial off without counting a failure: we were the ones who could not.
    pub(crate) fn put_off(&mut self, by: Duration, now: u64) {
        self.next_dial = self.next_dial.max(now + by.as_secs().max(1));
    }

    /// How long until it may be dialled; a clock that was set back does not make it longer than a
    /// day.
    pub(crate) fn wait(&self, now: u64) -> Duration {
        Duration::from_secs(self.next_dial.saturating_sub(now).min(DAY))
    }

    pub(crate) fn next_dial(&self) -> u64 {
        self.next_dial
    }

    pub(crate) fn is_dead(&self, now: u64) -> bool {
        let failing = self.failing_since.filter(|_| self.connected_at.is_none());
        failing.is_some_and(|since| now.saturating_sub(since) >= DAY)
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connected_at.is_some()
    }

    pub(crate) fn since(&self) -> Option<u64> {
        self.connected_at.or(self.failing_since)
    }

    /// After a restart nothing is connected.
    pub(crate) fn restored(mut self) -> Self {
        self.connected_at = None;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_secs(5),
        most: Duration::from_secs(3_600),
        faulty: Duration::from_secs(43_200),
    };

    #[test]
    fn g02_39_pauses_double_to_an_hour_and_only_a_stable_connection_ends_the_row() {
        let mut health = Health::default();
        let mut now = 1_000;
        for pause in [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600] {
            health.lost(Loss::Failed, &BACKOFF, now);
            assert_eq!(health.wait(now).as_secs(), pause);
            now += pause;
        }
        health.connected(now);
        health.lost(Loss::Failed, &BACKOFF, now + 299);
        assert_eq!(health.wait(now + 299).as_secs(), 3_600);
        health.connected(now + 4_000);
        health.lost(Loss::Failed, &BACKOFF, now + 4_300);
        assert_eq!(health.wait(now + 4_300).as_secs(), 5);
    }

    #[test]
    fn g02_40_after_a_day_without_success_a_relay_is_dialled_once_a_day() {
        let mut health = Health::default();
        health.lost(Loss::Failed, &BACKOFF, 0);
        assert!(!health.is_dead(86_399) && health.is_dead(86_400));
        health.lost(Loss::Failed, &BACKOFF, 86_400);
        assert_eq!(health.wait(86_400).as_secs(), 86_400);
        health.connected(200_000);
        assert!(!health.is_dead(500_000));
    }

    #[test]
    fn g02_41_what_is_no_relay_is_left_alone_for_twelve_hours() {
        let mut health = Health::default();
        health.lost(Loss::Faulty, &BACKOFF, 0);
        assert_eq!(health.wait(0).as_secs(), 43_200);
        health.connected(43_200);
        health.lost(Loss::Faulty, &BACKOFF, 43_300);
        assert_eq!(health.wait(43_300).as_secs(), 43_200);
    }
}
