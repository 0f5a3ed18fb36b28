//! One budget: what is left of it, and what is under way.
//!
//! Invariant: what the host has left is never less than `remaining` minus the calls in flight
//! minus the calls lost. Of the answers of one window the lowest counts, so every call that the
//! host counted after it has not been answered yet: it is in flight, or it was lost and no call
//! that was made later has been answered.

mod lost;

use std::time::Duration;

use tokio::time::Instant;

use self::lost::Lost;
use super::accounts::Rules;
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
    /// What was said in the log about this window.
    is_low: bool,
    pub(super) is_spent: bool,
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
pub(super) struct Ticket(pub(super) u64);

impl Ticket {
    /// Of a call that began before all that these books know of.
    pub(super) const OLDEST: Self = Self(0);
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// So many, the more the better.
    Calls(u64),
    /// Not while so many are under way.
    Busy,
    SpentUntil(Instant),
}

/// What a call taught about its budget.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Told {
    /// No call was made.
    Unused,
    /// Nothing: it may have cost a call.
    Nothing,
    /// The host answered as it should and said nothing of a budget.
    Unmetered,
    Quota(Quota),
}

impl Told {
    /// The budget that paid, where it is another than was thought.
    pub(super) fn elsewhere(self, thought: Resource) -> Option<(Resource, Quota)> {
        let Self::Quota(quota) = self else {
            return None;
        };
        let other = quota.resource.filter(|other| *other != thought)?;
        Some((other, quota))
    }
}

impl Window {
    /// A budget as the books that instances share have it.
    pub(super) fn see(&mut self, state: State, in_flight: u32, lost: u32) -> Option<Known> {
        self.state = state;
        self.in_flight = in_flight;
        self.lost = Lost::of(lost);
        match state {
            State::Known(known) => self.lowers(known),
            State::Unknown | State::Unmetered => None,
        }
    }

    /// Begins anew with what is sure without asking anybody, and no calls under way.
    pub(super) fn alone(&self, rules: &Rules, now: Instant) -> Self {
        let is_sure = match self.state {
            State::Unmetered => true,
            State::Unknown => false,
            State::Known(_) => matches!(self.room(rules, now), Room::SpentUntil(_)),
        };
        Self {
            state: if is_sure { self.state } else { State::Unknown },
            is_low: self.is_low,
            is_spent: self.is_spent,
            ..Self::default()
        }
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
        if let (Some(percent), None) = (rules.share, self.allowance) {
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

    pub(super) fn room(&self, rules: &Rules, now: Instant) -> Room {
        let one_at_a_time = match self.in_flight {
            0 => Room::Calls(u64::MAX),
            _ => Room::Busy,
        };
        let known = match self.state {
            State::Unknown => return one_at_a_time,
            State::Unmetered => return Room::Calls(u64::from(u32::MAX)),
            State::Known(known) => known,
        };
        let spare = match self.allowance {
            Some(0) => 0,
            _ => self.spare(known, rules),
        };
        match (spare, known.ends) {
            (0, Some(end)) => Room::SpentUntil((end + rules.margin).max(now + SHORTEST_WAIT)),
            // Nobody answered so many calls that there may be nothing left of a budget that was
            // not seen yet; only an answer can tell.
            (0, None) => one_at_a_time,
            (spare, _) if spare > self.in_flight => {
                let calls = spare - self.in_flight;
                Room::Calls(calls.min(self.allowance.unwrap_or(calls)).into())
            }
            _ => Room::Busy,
        }
    }

    /// What is left for sure, of calls that are not under way.
    pub(super) fn certain(&self, known: Known) -> u32 {
        known.remaining.saturating_sub(self.lost.count())
    }

    /// Tells the log how the budget stands.
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
    pub(super) fn take(&mut self) -> Ticket {
        self.in_flight += 1;
        self.tickets += 1;
        self.allowance = self.allowance.map(|calls| calls.saturating_sub(1));
        Ticket(self.tickets)
    }

    /// Ends a call. Returns what is left where that is little for the first time.
    pub(super) fn settle(&mut self, ticket: Ticket, told: Told, now: Instant) -> Option<Known> {
        self.in_flight = self.in_flight.saturating_sub(1);
        match (told, self.state) {
            (Told::Quota(quota), _) => {
                self.lost.resolve(ticket);
                return self.learn(quota, now);
            }
            (Told::Unmetered, State::Unknown) => self.state = State::Unmetered,
            (Told::Unmetered | Told::Nothing, State::Unknown | State::Known(_)) => {
                self.lost.add(Ticket(self.tickets));
            }
            (Told::Unused, _) if ticket > Ticket::OLDEST => {
                self.allowance = self.allowance.map(|calls| calls.saturating_add(1));
            }
            (Told::Unused, _) | (_, State::Unmetered) => {}
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
        self.lowers(next)
    }

    /// What is left, where that is little for the first time.
    fn lowers(&mut self, known: Known) -> Option<Known> {
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
