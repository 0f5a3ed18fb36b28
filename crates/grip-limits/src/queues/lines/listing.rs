//! Lists of the lines that may be asked for, and of those that wait for a time.

use std::hash::Hash;

use grip_types::Domain;
use tokio::time::Instant;

use super::Lines;
use crate::notifier::Since;

/// Whether a line can be asked for. Each variant knows where it is listed.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum State {
    /// Nobody waits in it.
    Resting,
    Ready(u64),
    /// Someone asks for it; `rung`: its host rang meanwhile, so a refusal may be out of date.
    Asking {
        rung: bool,
    },
    /// Refused: until its host rings or the moment comes.
    Blocked(Option<(Instant, u64)>),
}

impl<K: Clone + Eq + Hash> Lines<K> {
    /// The moment at which the next blocked line is ready again.
    pub fn first_timer(&self) -> Option<Instant> {
        let ((at, _), _) = self.timers.first_key_value()?;
        Some(*at)
    }

    /// Takes note of the hosts that rang.
    pub fn hear(&mut self, since: &Since) {
        match since {
            Since::Hosts(domains) => domains.iter().for_each(|domain| self.rang(domain)),
            Since::Missed => {
                let all: Vec<_> = self.lines.keys().cloned().collect();
                all.iter().for_each(|domain| self.rang(domain));
            }
        }
    }

    fn rang(&mut self, domain: &Domain) {
        let Some(line) = self.lines.get_mut(domain) else {
            return;
        };
        match &mut line.state {
            State::Asking { rung } => *rung = true,
            State::Blocked(_) => self.make_ready(domain),
            State::Resting | State::Ready(_) => {}
        }
    }

    /// The line to ask for next; it stays out of the way of others until its answer is told.
    pub fn begin_ask(&mut self, now: Instant) -> Option<Domain> {
        while self.first_timer().is_some_and(|at| at <= now) {
            let (_, domain) = self.timers.pop_first()?;
            self.make_ready(&domain);
        }
        let (_, domain) = self.ready.pop_first()?;
        if let Some(line) = self.lines.get_mut(&domain) {
            line.state = State::Asking { rung: false };
        }
        Some(domain)
    }

    /// Blocks the line until its host rings or the moment comes.
    pub fn refused(&mut self, domain: &Domain, retry_at: Option<Instant>) -> bool {
        match self.lines.get(domain).map(|line| line.state) {
            Some(State::Asking { rung: true }) => self.make_ready(domain),
            Some(State::Asking { rung: false }) => {
                let first = self.first_timer();
                let timer = retry_at.map(|at| (at, self.number()));
                self.set_state(domain, State::Blocked(timer));
                return self.first_timer() != first;
            }
            // The line is another one by now.
            _ => {}
        }
        true
    }

    /// Nobody waits for the answer any more.
    pub fn asked_in_vain(&mut self, domain: &Domain) -> bool {
        let state = self.lines.get(domain).map(|line| line.state);
        if matches!(state, Some(State::Asking { .. })) {
            self.make_ready(domain);
        }
        true
    }

    /// Lets an empty line rest, unless it is being asked for: the answer is still to come.
    pub(super) fn rest(&mut self, domain: &Domain) {
        let state = self.lines.get(domain).map(|line| line.state);
        if let Some(State::Ready(_) | State::Blocked(_)) = state {
            self.set_state(domain, State::Resting);
        }
    }

    pub(super) fn wake_if_resting(&mut self, domain: &Domain) -> bool {
        let state = self.lines.get(domain).map(|line| line.state);
        let rests = state == Some(State::Resting);
        if rests {
            self.make_ready(domain);
        }
        rests
    }

    /// Lists a line as ready, or lets it rest if nobody waits in it.
    pub(super) fn make_ready(&mut self, domain: &Domain) {
        let number = self.number();
        let Some(line) = self.lines.get(domain) else {
            return;
        };
        let state = if line.waiting.is_empty() {
            State::Resting
        } else {
            State::Ready(number)
        };
        self.set_state(domain, state);
    }

    /// Changes the state of a line and the list it is in.
    fn set_state(&mut self, domain: &Domain, state: State) {
        let Some(line) = self.lines.get_mut(domain) else {
            return;
        };
        match std::mem::replace(&mut line.state, state) {
            State::Ready(number) => drop(self.ready.remove(&number)),
            State::Blocked(Some(timer)) => drop(self.timers.remove(&timer)),
            State::Blocked(None) | State::Resting | State::Asking { .. } => {}
        }
        match state {
            State::Ready(number) => drop(self.ready.insert(number, domain.clone())),
            State::Blocked(Some(timer)) => drop(self.timers.insert(timer, domain.clone())),
            State::Blocked(None) | State::Resting | State::Asking { .. } => {}
        }
    }
}
