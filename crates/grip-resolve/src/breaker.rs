//! Leaves failing peers alone, then tries them with care.
//!
//! ```text
//! Passing ──failures──▶ Shut ──cooldown──▶ Probing ──good probes──▶ Passing
//!                        ▲────────bad probe────┘
//! ```
//!
//! In other words closed, open and half-open. Invariants:
//! - One task writes ([`table`]); who asks peers reads a snapshot and takes probes.
//! - Answers to questions from before the breaker shut move no state.
//! - Pure in this file: time is an argument.

mod table;

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

pub use table::PeerState;
pub(crate) use table::{Breakers, Pass};

/// Answers of one peer remembered at most; older ones leave first.
const MAX_ANSWERS: usize = 64;

/// When a peer is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How far back answers count. Default 30 s.
    pub window: Duration,
    /// The share of failures above which it is shut. Default 50.
    pub trip_percent: u32,
    /// Answers in the window before anything is decided. Default 4.
    pub min_answers: u32,
    /// How long a shut peer is left alone. Default 15 s.
    pub cooldown: Duration,
    /// Good probes before it passes again, and probes at once. Default 2.
    pub probes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            trip_percent: 50,
            min_answers: 4,
            cooldown: Duration::from_secs(15),
            probes: 2,
        }
    }
}

/// How a question went, as far as it speaks for or against the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    Bad,
    /// Says nothing of the peer.
    Neither,
}

/// What becomes of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Shut { until: Instant },
    Passing,
}

/// The record of one peer.
#[derive(Debug, Default)]
struct Breaker {
    /// Within the window, oldest first: when, and whether it failed.
    answers: VecDeque<(Instant, bool)>,
    is_shut: bool,
    /// Good probes since it was shut.
    passed: u32,
}

impl Breaker {
    /// Takes in how a question went; `is_probe` if it was a probe of the present shutting.
    fn note(
        &mut self,
        outcome: Outcome,
        is_probe: bool,
        options: &Options,
        now: Instant,
    ) -> Option<Change> {
        if outcome == Outcome::Neither {
            return None;
        }
        let failed = outcome == Outcome::Bad;
        match (self.is_shut, is_probe) {
            (false, _) => {
                self.remember(failed, options.window, now);
                (failed && self.is_failing(options)).then(|| self.shut(options, now))
            }
            (true, true) if failed => Some(self.shut(options, now)),
            (true, true) => self.probe_passed(options),
            (true, false) => None,
        }
    }

    fn probe_passed(&mut self, options: &Options) -> Option<Change> {
        self.passed += 1;
        if self.passed < options.probes {
            return None;
        }
        *self = Self::default();
        Some(Change::Passing)
    }

    fn shut(&mut self, options: &Options, now: Instant) -> Change {
        self.answers.clear();
        self.is_shut = true;
        self.passed = 0;
        let until = now + options.cooldown;
        Change::Shut { until }
    }

    fn remember(&mut self, failed: bool, window: Duration, now: Instant) {
        self.forget(window, now);
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((now, failed));
    }

    fn forget(&mut self, window: Duration, now: Instant) {
        while let Some((at, _)) = self.answers.front()
            && now.saturating_duration_since(*at) >= window
        {
            self.answers.pop_front();
        }
    }

    fn is_failing(&self, options: &Options) -> bool {
        let answers = self.answers.len() as u64;
        let failures = self.answers.iter().filter(|(_, failed)| *failed).count() as u64;
        answers >= u64::from(options.min_answers.max(1))
            && failures * 100 > answers * u64::from(options.trip_percent)
    }

    /// Whether a new one would behave the same.
    fn is_blank(&mut self, window: Duration, now: Instant) -> bool {
        self.forget(window, now);
        !self.is_shut && self.answers.is_empty()
    }
}

#[cfg(test)]
mod tests;
