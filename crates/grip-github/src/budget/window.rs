//! One budget: what is left of it, and what is in flight.
//!
//! Invariant: what the host has left is never less than `remaining` minus the calls in flight
//! minus the calls lost. Of the responses of one window the lowest counts, so every call that the
//! host counted after it has no response yet: it is in flight, or it was lost and no call that was
//! made later has a response.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use super::tokens::Rules;
use crate::quota::{Quota, Resource};

/// Shortest wait for a spent budget.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Ends of one window that the host's machines tell may differ so much, in seconds.
const SAME_WINDOW: u64 = 1;

#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) state: State,
    pub(super) in_flight: u32,
    lost: Lost,
    tickets: u64,
    /// What was logged about this window.
    is_low: bool,
    pub(super) is_spent: bool,
    /// Whether what is known must be confirmed by a response before it is spent.
    is_stale: bool,
    /// Where only a share may be spent: what is left of it in this window, once that is known.
    allowance: Option<u32>,
}

/// What is known of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: one call at a time, until an answer tells.
    #[default]
    Unknown,
    /// The host keeps none.
    Unmetered,
    Known(Known),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) limit: u32,
    pub(super) remaining: u32,
    /// The end of the window as the host named it.
    pub(super) reset: u64,
    /// The end by our own clock; none once it is over and no answer of the next was seen.
    pub(super) ends: Option<Instant>,
}

/// The place of a call among all of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CallNumber(pub(super) u64);

impl CallNumber {
    /// Of a call that began before all that this window knows of.
    pub(super) const OLDEST: Self = Self(0);
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Available {
    /// So many, the more the better.
    Calls(u64),
    /// Not while so many are under way.
    Busy,
    SpentUntil(Instant),
}

/// How a call ended, and what it taught about its budget.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// No call was made.
    Unused,
    /// No response came, or none that tells: it may have cost a call.
    Lost,
    /// The host responded as it should and named no budget.
    Unmetered,
    Quota(Quota),
}

impl Outcome {
    /// The budget that paid, where it is another than was thought.
    pub(super) fn paid_elsewhere(self, thought: Resource) -> Option<(Resource, Quota)> {
        let Self::Quota(quota) = self else {
            return None;
        };
        let other = quota.resource.filter(|other| *other != thought)?;
        Some((other, quota))
    }
}

impl Window {
    /// Takes over a budget that instances share.
    pub(super) fn observe(&mut self, state: State, in_flight: u32, lost: u32) -> Option<Known> {
        self.state = state;
        self.is_stale = false;
        self.in_flight = in_flight;
        self.lost = Lost::of(lost, CallNumber(self.tickets));
        match state {
            State::Known(known) => self.set_low(known),
            State::Unknown | State::Unmetered => None,
        }
    }

    /// Begins to spend a part of the budget: it is not known what others spend, so that only the
    /// next response tells what is left, unless the budget is spent.
    pub(super) fn begin_fallback(&mut self, rules: &Rules, in_flight: u32, now: Instant) {
        let is_spent = matches!(self.available(rules, now), Available::SpentUntil(_));
        self.is_stale = !is_spent;
        self.in_flight = in_flight;
        self.allowance = None;
    }

    /// Looks whether the window is over; then the budget is whole again.
    pub(super) fn roll(&mut self, rules: &Rules, now: Instant) {
        let State::Known(known) = &mut self.state else {
            return;
        };
        if known.ends.is_some_and(|end| now >= end + rules.margin) {
            known.remaining = known.limit;
            known.ends = None;
            self.is_low = false;
            self.allowance = None;
        }
        let known = *known;
        if let (Some(percent), None, false) = (rules.share, self.allowance, self.is_stale) {
            let spare = self.spare(known, rules).saturating_sub(self.in_flight);
            let part = u64::from(spare) * u64::from(percent.min(100)) / 100;
            self.allowance = Some(u32::try_from(part).unwrap_or(u32::MAX));
        }
    }

    /// What may be spent, with the calls under way.
    fn spare(&self, known: Known, rules: &Rules) -> u32 {
        let kept = known.reserved(rules.reserve);
        known
            .remaining
            .saturating_sub(kept.saturating_add(self.lost.count()))
    }

    pub(super) fn available(&self, rules: &Rules, now: Instant) -> Available {
        let one_at_a_time = if self.in_flight == 0 {
            Available::Calls(u64::MAX)
        } else {
            Available::Busy
        };
        let known = match self.state {
            State::Unknown => return one_at_a_time,
            State::Unmetered => return Available::Calls(u64::from(u32::MAX)),
            State::Known(_) if self.is_stale => return one_at_a_time,
            State::Known(known) => known,
        };
        let allowance = rules.share.and(self.allowance);
        let spare = match allowance {
            Some(0) => 0,
            _ => self.spare(known, rules),
        };
        match (spare, known.ends) {
            (0, Some(end)) => Available::SpentUntil((end + rules.margin).max(now + SHORTEST_WAIT)),
            // Nobody answered so many calls that there may be nothing left of a budget that was
            // not seen yet; only an answer can tell.
            (0, None) => one_at_a_time,
            (spare, _) if spare > self.in_flight => {
                let calls = spare - self.in_flight;
                Available::Calls(calls.min(allowance.unwrap_or(calls)).into())
            }
            _ => Available::Busy,
        }
    }

    /// What is left for sure, of calls that are not under way.
    pub(super) fn certain(&self, known: Known) -> u32 {
        known.remaining.saturating_sub(self.lost.count())
    }

    /// Logs what is left of the budget.
    pub(super) fn log(&self, resource: Resource, now: Instant) {
        let resource = resource.name();
        let in_flight = self.in_flight;
        match self.state {
            State::Known(known) => {
                let Known {
                    limit, remaining, ..
                } = known;
                let reset_s = known
                    .ends
                    .map(|end| (end.saturating_duration_since(now)).as_secs());
                tracing::debug!(
                    resource,
                    limit,
                    remaining,
                    in_flight,
                    ?reset_s,
                    "GitHub budget"
                );
            }
            state => tracing::debug!(resource, ?state, in_flight, "GitHub budget"),
        }
    }

    /// Begins a call.
    pub(super) fn take(&mut self) -> CallNumber {
        self.in_flight += 1;
        self.tickets += 1;
        self.allowance = self.allowance.map(|calls| calls.saturating_sub(1));
        CallNumber(self.tickets)
    }

    /// Ends a call. Returns what is left where that is little for the first time.
    pub(super) fn settle(
        &mut self,
        ticket: CallNumber,
        outcome: Outcome,
        now: Instant,
    ) -> Option<Known> {
        self.in_flight = self.in_flight.saturating_sub(1);
        match (outcome, self.state) {
            (Outcome::Quota(quota), _) => {
                self.lost.resolve(ticket);
                return self.learn(quota, now);
            }
            (Outcome::Unmetered, State::Unknown) => self.state = State::Unmetered,
            (Outcome::Unmetered | Outcome::Lost, State::Unknown | State::Known(_)) => {
                self.lost.add(CallNumber(self.tickets));
            }
            (Outcome::Unused, _) if ticket > CallNumber::OLDEST => {
                self.allowance = self.allowance.map(|calls| calls.saturating_add(1));
            }
            (Outcome::Unused, _) | (_, State::Unmetered) => {}
        }
        None
    }

    /// Takes over what an answer says.
    pub(super) fn learn(&mut self, quota: Quota, now: Instant) -> Option<Known> {
        let mut next = Known {
            limit: quota.limit,
            remaining: quota.remaining,
            reset: quota.reset,
            ends: Some(now + quota.reset_in),
        };
        match self.state {
            State::Known(last) if last.ends.is_some() => {
                let is_same = quota.reset.abs_diff(last.reset) <= SAME_WINDOW;
                if !is_same && quota.reset < last.reset {
                    // A late answer of a window that is over.
                    return None;
                }
                if !is_same {
                    self.is_low = false;
                    self.allowance = None;
                } else {
                    next.remaining = next.remaining.min(last.remaining);
                    next.ends = next.ends.max(last.ends);
                }
            }
            _ => self.is_low = false,
        }
        self.state = State::Known(next);
        self.is_stale = false;
        self.set_low(next)
    }

    /// What is left, where that is little for the first time.
    fn set_low(&mut self, known: Known) -> Option<Known> {
        let is_low = u64::from(known.remaining) * 10 < u64::from(known.limit);
        let is_new = is_low && !self.is_low;
        self.is_low = is_low;
        is_new.then_some(known)
    }
}

impl Known {
    /// What is left to others: never more than a tenth.
    pub(super) fn reserved(&self, reserve: u32) -> u32 {
        reserve.min(self.limit / 10)
    }
}

/// Calls without a response: the host may have counted each, at the latest when it was given
/// up.
#[derive(Debug, Default)]
struct Lost {
    /// How many were given up after which call had begun, the oldest first.
    calls: VecDeque<(CallNumber, u32)>,
}

/// Moments of giving up that are told apart. Beyond, the last two are taken for one.
const MAX_MOMENTS: usize = 64;

impl Lost {
    /// So many, which were given up at the latest after `last` had begun.
    fn of(count: u32, last: CallNumber) -> Self {
        let calls = (count > 0).then_some((last, count));
        Self {
            calls: calls.into_iter().collect(),
        }
    }

    fn count(&self) -> u32 {
        let counts = self.calls.iter().map(|(_, count)| *count);
        counts.fold(0, u32::saturating_add)
    }

    fn add(&mut self, last: CallNumber) {
        let is_full = self.calls.len() >= MAX_MOMENTS;
        match self.calls.back_mut() {
            Some((at, count)) if *at == last || is_full => {
                *at = last;
                *count = count.saturating_add(1);
            }
            _ => self.calls.push_back((last, 1)),
        }
    }

    /// Forgets those that were given up before `ticket` began: its response counts them.
    fn resolve(&mut self, ticket: CallNumber) {
        while self.calls.front().is_some_and(|(at, _)| *at < ticket) {
            self.calls.pop_front();
        }
    }
}
