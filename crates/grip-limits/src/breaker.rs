//! Leaves a failing host alone, then tries it with care.
//!
//! Pure: time is an argument. Answers to requests that went out before the breaker shut say
//! nothing about the host as it is now and move no state.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{BreakerOptions, BreakerState, Reason, Verdict, host::Hold};

/// Answers remembered at most; older ones leave first.
const MAX_ANSWERS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    state: State,
    /// Answers within the window, oldest first.
    answers: VecDeque<Answered>,
    /// How many of them are failures.
    failures: u32,
    /// Probes under way, also those of earlier rounds: the host has them all.
    probes: u32,
    /// Counts how often probing began; tells the probes of one round from another's.
    round: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Passing,
    Shut {
        until: Instant,
    },
    Probing {
        passed: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Answered {
    at: Instant,
    failed: bool,
}

impl Breaker {
    /// Whether a further request may go now.
    pub fn look(&mut self, options: &BreakerOptions, now: Instant) -> Result<(), Hold> {
        self.cool(now);
        match self.state {
            State::Passing => Ok(()),
            State::Shut { until } => Err(Hold::new(Reason::Shut, until)),
            State::Probing { .. } if self.probes < options.probes.max(1) => Ok(()),
            State::Probing { .. } => Err(Hold::in_flight(now)),
        }
    }

    /// Counts a request that [`Breaker::look`] let through; a probe gets its round.
    pub fn start(&mut self) -> Option<u64> {
        let is_probe = matches!(self.state, State::Probing { .. });
        is_probe.then(|| {
            self.probes += 1;
            self.round
        })
    }

    /// Whether a request that is under way may be followed by another under the same slot.
    pub fn look_again(
        &mut self,
        probe: Option<u64>,
        options: &BreakerOptions,
        now: Instant,
    ) -> Result<(), Hold> {
        self.cool(now);
        match (self.state, probe) {
            // Its probe is counted already.
            (State::Probing { .. }, Some(_)) => Ok(()),
            _ => self.look(options, now),
        }
    }

    /// Counts a request that [`Breaker::look_again`] let through.
    pub fn start_again(&mut self, probe: &mut Option<u64>) {
        match (self.state, &probe) {
            (State::Probing { .. }, Some(_)) => *probe = Some(self.round),
            (State::Probing { .. }, None) => *probe = self.start(),
            _ => {}
        }
    }

    /// Takes a request off the books; `verdict` is none where it says nothing.
    /// Returns whether the state changed.
    pub fn end(
        &mut self,
        probe: Option<u64>,
        verdict: Option<Verdict>,
        options: &BreakerOptions,
        now: Instant,
    ) -> bool {
        self.cool(now);
        if probe.is_some() {
            self.probes = self.probes.saturating_sub(1);
        }
        let Some(verdict) = verdict else { return false };
        self.note(verdict, options, now);
        let before = self.state;
        match self.state {
            State::Passing if verdict == Verdict::Failure && self.is_failing(options) => {
                self.shut(options, now);
            }
            State::Probing { passed } if probe == Some(self.round) => {
                self.judge(passed, verdict, options, now);
            }
            _ => {}
        }
        self.state != before
    }

    /// Decides on the answer to a probe of this round.
    ///
    /// A neutral answer is a good one here: the host is there and talks.
    fn judge(&mut self, passed: u32, verdict: Verdict, options: &BreakerOptions, now: Instant) {
        if verdict == Verdict::Failure {
            self.shut(options, now);
        } else if passed + 1 < options.probes {
            self.state = State::Probing { passed: passed + 1 };
        } else {
            self.state = State::Passing;
            self.answers.clear();
            self.failures = 0;
        }
    }

    fn shut(&mut self, options: &BreakerOptions, now: Instant) {
        let until = now + options.cooldown;
        self.state = State::Shut { until };
    }

    /// Turns shut into probing once the cooldown is over.
    fn cool(&mut self, now: Instant) {
        if let State::Shut { until } = self.state
            && until <= now
        {
            self.state = State::Probing { passed: 0 };
            self.round += 1;
        }
    }

    fn note(&mut self, verdict: Verdict, options: &BreakerOptions, now: Instant) {
        self.forget(options.window, now);
        if verdict == Verdict::Neutral {
            return;
        }
        if self.answers.len() == MAX_ANSWERS {
            self.drop_oldest();
        }
        let failed = verdict == Verdict::Failure;
        self.failures += u32::from(failed);
        self.answers.push_back(Answered { at: now, failed });
    }

    fn is_failing(&self, options: &BreakerOptions) -> bool {
        let answers = self.answers.len() as u64;
        answers >= u64::from(options.min_requests)
            && u64::from(self.failures) * 100 >= answers * u64::from(options.trip_percent)
    }

    fn forget(&mut self, window: Duration, now: Instant) {
        while let Some(oldest) = self.answers.front()
            && now.saturating_duration_since(oldest.at) >= window
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.answers.pop_front() {
            self.failures -= u32::from(oldest.failed);
        }
    }

    /// Failures within the window.
    pub fn failures(&mut self, options: &BreakerOptions, now: Instant) -> u32 {
        self.forget(options.window, now);
        self.failures
    }

    pub fn state(&mut self, now: Instant) -> BreakerState {
        self.cool(now);
        match self.state {
            State::Passing => BreakerState::Passing,
            State::Shut { .. } => BreakerState::Shut,
            State::Probing { .. } => BreakerState::Probing,
        }
    }

    /// When a shut breaker will let probes through.
    pub fn shut_until(&self) -> Option<Instant> {
        match self.state {
            State::Shut { until } => Some(until),
            _ => None,
        }
    }

    /// Whether a new breaker would behave the same.
    pub fn is_blank(&mut self, options: &BreakerOptions, now: Instant) -> bool {
        self.forget(options.window, now);
        self.state == State::Passing && self.answers.is_empty() && self.probes == 0
    }
}

#[cfg(test)]
mod tests;
