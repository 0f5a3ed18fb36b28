//! One budget: what is left of it, and what is under way.
//!
//! Invariant: what the host has left is never less than `remaining` minus the calls in flight
//! minus the calls lost. Of the answers of one window the lowest counts, so every call that the
//! host counted after it has not been answered yet: it is in flight, or it was lost and no call
//! that was made later has been answered.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

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
    reset: u64,
    /// The end by our own clock; none once it is over and no answer of the next was seen.
    pub(super) ends: Option<Instant>,
}

/// The place of a call among all of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Calls that nobody answered: the host may have counted each, at the latest when it was given
/// up.
#[derive(Debug, Default)]
struct Lost {
    /// How many were given up after which call had begun, the oldest first.
    calls: VecDeque<(Ticket, u32)>,
}

/// Moments of giving up that are told apart. Beyond, the last two are taken for one.
const MAX_MOMENTS: usize = 64;

impl Lost {
    fn count(&self) -> u32 {
        let counts = self.calls.iter().map(|(_, count)| *count);
        counts.fold(0, u32::saturating_add)
    }

    fn add(&mut self, last: Ticket) {
        let is_full = self.calls.len() >= MAX_MOMENTS;
        match self.calls.back_mut() {
            Some((at, count)) if *at == last || is_full => {
                *at = last;
                *count = count.saturating_add(1);
            }
            _ => self.calls.push_back((last, 1)),
        }
    }

    /// Forgets those that were given up before `ticket` began: its answer counts them.
    fn resolve(&mut self, ticket: Ticket) {
        while self.calls.front().is_some_and(|(at, _)| *at < ticket) {
            self.calls.pop_front();
        }
    }
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

impl Window {
    /// Looks whether the window is over; then the budget is whole again.
    pub(super) fn roll(&mut self, margin: Duration, now: Instant) {
        let State::Known(known) = &mut self.state else {
            return;
        };
        if known.ends.is_some_and(|end| now >= end + margin) {
            known.remaining = known.limit;
            known.ends = None;
            self.is_low = false;
        }
    }

    pub(super) fn room(&self, reserve: u32, margin: Duration, now: Instant) -> Room {
        let one_at_a_time = match self.in_flight {
            0 => Room::Calls(u64::MAX),
            _ => Room::Busy,
        };
        let known = match self.state {
            State::Unknown => return one_at_a_time,
            State::Unmetered => return Room::Calls(u64::from(u32::MAX)),
            State::Known(known) => known,
        };
        let kept = known.reserved(reserve).saturating_add(self.lost.count());
        let spare = known.remaining.saturating_sub(kept);
        match (spare, known.ends) {
            (0, Some(end)) => Room::SpentUntil((end + margin).max(now + SHORTEST_WAIT)),
            // Nobody answered so many calls that there may be nothing left of a budget that was
            // not seen yet; only an answer can tell.
            (0, None) => one_at_a_time,
            (spare, _) if spare > self.in_flight => Room::Calls(u64::from(spare - self.in_flight)),
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
                } else {
                    next.remaining = next.remaining.min(last.remaining);
                    next.ends = next.ends.max(last.ends);
                }
            }
            _ => self.is_low = false,
        }
        self.state = State::Known(next);
        let is_low = u64::from(next.remaining) * 10 < u64::from(next.limit);
        let is_new = is_low && !self.is_low;
        self.is_low = is_low;
        is_new.then_some(next)
    }
}

impl Known {
    /// What is left to others: never more than a tenth.
    pub(super) fn reserved(&self, reserve: u32) -> u32 {
        reserve.min(self.limit / 10)
    }
}
