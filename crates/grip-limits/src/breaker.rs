//! The circuit breaker: leaves alone what fails too often, then tries it with care.
//!
//! ```text
//! Closed ──failures──▶ Open ──cooldown──▶ HalfOpen ──good probes──▶ Closed
//!                       ▲────────bad probe────┘
//! ```
//!
//! Pure: time is an argument. Outcomes of requests that went out before the breaker opened say
//! nothing about the present and move no state.

use std::{collections::VecDeque, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::Verdict;

mod keyed;

pub use keyed::{Breakers, KeyedBreakers};

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BreakerOptions {
    /// How far back outcomes count: 30 seconds.
    pub window: Duration,
    /// Opens when this part of the outcomes are failures: 50.
    pub trip_percent: u32,
    /// Whether exactly `trip_percent` of failures is still tolerated: no.
    pub tolerates_threshold: bool,
    /// Never opens on fewer outcomes than this: 4.
    pub min_requests: u32,
    /// How long it stays open before it lets probes through: 10 seconds.
    pub cooldown: Duration,
    /// Probes at once, and probes that must succeed before it closes: 3.
    pub probes: u32,
    /// Outcomes remembered at most, the newest: 256.
    pub max_outcomes: usize,
}

impl BreakerOptions {
    const DEFAULT: Self = Self {
        window: Duration::from_secs(30),
        trip_percent: 50,
        tolerates_threshold: false,
        min_requests: 4,
        cooldown: Duration::from_secs(10),
        probes: 3,
        max_outcomes: 256,
    };
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(rename = "Breaker")]
pub enum BreakerState {
    /// Everything passes.
    #[default]
    #[serde(rename = "passing")]
    Closed,
    /// Nothing passes.
    #[serde(rename = "shut")]
    Open,
    /// A few probes pass, to see whether requests succeed again.
    #[serde(rename = "probing")]
    HalfOpen,
}

/// Why a breaker lets no request through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    OpenUntil(Instant),
    /// As many probes as may are in flight.
    Probing,
}

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: State,
    /// Outcomes within the window, oldest first.
    outcomes: VecDeque<Outcome>,
    /// How many of them are failures.
    failures: u32,
    /// Probes in flight, also those of earlier rounds: the other side has them all.
    probes: u32,
    /// Counts how often probing began; tells the probes of one round from another's.
    round: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open {
        until: Instant,
    },
    HalfOpen {
        passed: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    at: Instant,
    failed: bool,
}

impl Breaker {
    /// Whether a further request may go now.
    pub fn check(&mut self, options: &BreakerOptions, now: Instant) -> Result<(), Blocked> {
        self.cool(now);
        match self.state {
            State::Closed => Ok(()),
            State::Open { until } => Err(Blocked::OpenUntil(until)),
            State::HalfOpen { .. } if self.probes < options.probes.max(1) => Ok(()),
            State::HalfOpen { .. } => Err(Blocked::Probing),
        }
    }

    /// Counts a request that [`Breaker::check`] let through; a probe gets its round.
    pub fn start(&mut self) -> Option<u64> {
        let is_probe = matches!(self.state, State::HalfOpen { .. });
        is_probe.then(|| {
            self.probes += 1;
            self.round
        })
    }

    /// Whether a request in flight may be followed by another under the same permit.
    pub fn check_next(
        &mut self,
        probe: Option<u64>,
        options: &BreakerOptions,
        now: Instant,
    ) -> Result<(), Blocked> {
        self.cool(now);
        match (self.state, probe) {
            // Its probe is counted already.
            (State::HalfOpen { .. }, Some(_)) => Ok(()),
            _ => self.check(options, now),
        }
    }

    /// Counts a request that [`Breaker::check_next`] let through; returns its probe.
    pub fn start_next(&mut self, probe: Option<u64>) -> Option<u64> {
        match (self.state, probe) {
            (State::HalfOpen { .. }, Some(_)) => Some(self.round),
            (State::HalfOpen { .. }, None) => self.start(),
            _ => probe,
        }
    }

    /// Ends a request; `verdict` is none where it says nothing.
    pub fn end(
        &mut self,
        probe: Option<u64>,
        verdict: Option<Verdict>,
        options: &BreakerOptions,
        now: Instant,
    ) {
        self.cool(now);
        if probe.is_some() {
            self.probes = self.probes.saturating_sub(1);
        }
        let Some(verdict) = verdict else { return };
        self.record(verdict, options, now);
        match self.state {
            State::Closed if verdict == Verdict::Failure && self.is_failing(options) => {
                self.open(options, now);
            }
            State::HalfOpen { passed } if probe == Some(self.round) => {
                self.end_probe(passed, verdict, options, now);
            }
            _ => {}
        }
    }

    /// Decides on the outcome of a probe of this round.
    ///
    /// A neutral one is good: the other side is there and responds.
    fn end_probe(&mut self, passed: u32, verdict: Verdict, options: &BreakerOptions, now: Instant) {
        if verdict == Verdict::Failure {
            self.open(options, now);
        } else if passed + 1 < options.probes {
            self.state = State::HalfOpen { passed: passed + 1 };
        } else {
            self.close();
        }
    }

    fn open(&mut self, options: &BreakerOptions, now: Instant) {
        let until = now + options.cooldown;
        self.state = State::Open { until };
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.outcomes.clear();
        self.failures = 0;
    }

    /// Half-opens once the cooldown is over.
    fn cool(&mut self, now: Instant) {
        if let State::Open { until } = self.state
            && until <= now
        {
            self.state = State::HalfOpen { passed: 0 };
            self.round += 1;
        }
    }

    /// Takes over the state of a breaker that instances share.
    pub fn adopt(&mut self, state: BreakerState, open_until: Option<Instant>) {
        match (state, open_until) {
            (BreakerState::Open, Some(until)) => self.state = State::Open { until },
            (BreakerState::Closed, _) if self.state != State::Closed => self.close(),
            (BreakerState::Closed, _) => {}
            (BreakerState::HalfOpen | BreakerState::Open, _) => {
                if !matches!(self.state, State::HalfOpen { .. }) {
                    self.state = State::HalfOpen { passed: 0 };
                    self.round += 1;
                }
            }
        }
    }

    fn record(&mut self, verdict: Verdict, options: &BreakerOptions, now: Instant) {
        self.expire(options.window, now);
        if verdict == Verdict::Neutral {
            return;
        }
        if self.outcomes.len() >= options.max_outcomes.max(1) {
            self.drop_oldest();
        }
        let failed = verdict == Verdict::Failure;
        self.failures += u32::from(failed);
        self.outcomes.push_back(Outcome { at: now, failed });
    }

    fn is_failing(&self, options: &BreakerOptions) -> bool {
        let outcomes = self.outcomes.len() as u64;
        let failed = u64::from(self.failures) * 100;
        let threshold = outcomes * u64::from(options.trip_percent);
        outcomes >= u64::from(options.min_requests)
            && (failed > threshold || (failed == threshold && !options.tolerates_threshold))
    }

    fn expire(&mut self, window: Duration, now: Instant) {
        while let Some(oldest) = self.outcomes.front()
            && now.saturating_duration_since(oldest.at) >= window
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.outcomes.pop_front() {
            self.failures -= u32::from(oldest.failed);
        }
    }

    /// Failures within the window.
    pub fn failures(&mut self, options: &BreakerOptions, now: Instant) -> u32 {
        self.expire(options.window, now);
        self.failures
    }

    pub fn state(&mut self, now: Instant) -> BreakerState {
        self.cool(now);
        match self.state {
            State::Closed => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// When an open breaker will let probes through.
    pub fn open_until(&self) -> Option<Instant> {
        match self.state {
            State::Open { until } => Some(until),
            _ => None,
        }
    }

    /// Whether a new breaker would behave the same.
    pub fn is_blank(&mut self, options: &BreakerOptions, now: Instant) -> bool {
        self.expire(options.window, now);
        self.state == State::Closed && self.outcomes.is_empty() && self.probes == 0
    }
}

#[cfg(test)]
mod tests;
