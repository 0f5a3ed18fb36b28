//! The books of one host.
//!
//! Pure: time is an argument. A start counts until a whole window and a
//! small margin have passed, so that no window of that length ever holds more than the limit,
//! neither here nor where the requests arrive.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{
    Advice, BreakerOptions, Lane, Limits, Reason, Verdict, Why,
    breaker::Breaker,
    ledger::{Outcome, Slot},
};

mod status;

/// Guess at how long a request takes: when to ask again where only an answer frees a slot.
const REQUEST_TAKES: Duration = Duration::from_secs(1);

/// What is known about one host.
#[derive(Debug)]
pub(crate) struct Host {
    limits: Limits,
    breaker_options: BreakerOptions,
    /// Starts within the window, oldest first; never more than `limits.per_window`.
    starts: VecDeque<(Instant, Lane)>,
    /// How many of them are of each lane.
    started: [u32; 2],
    in_flight: [u32; 2],
    breaker: Breaker,
    advised: Option<(Instant, Why)>,
    used_at: Instant,
    requests_total: u64,
    failures_total: u64,
}

/// Why no request may go, and when asking again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub reason: Reason,
    pub retry_at: Instant,
}

/// A start that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    pub at: Instant,
    pub probe: Option<u64>,
}

impl Hold {
    pub fn new(reason: Reason, retry_at: Instant) -> Self {
        Self { reason, retry_at }
    }

    pub fn in_flight(now: Instant) -> Self {
        Self::new(Reason::InFlight, now + REQUEST_TAKES)
    }
}

impl Host {
    pub fn new(limits: Limits, breaker_options: BreakerOptions, now: Instant) -> Self {
        Self {
            limits,
            breaker_options,
            starts: VecDeque::new(),
            started: [0; 2],
            in_flight: [0; 2],
            breaker: Breaker::default(),
            advised: None,
            used_at: now,
            requests_total: 0,
            failures_total: 0,
        }
    }

    /// Takes a slot and a start.
    pub fn ask(&mut self, lane: Lane, now: Instant) -> Result<Started, Hold> {
        self.look(lane, now)?;
        self.in_flight[lane.index()] += 1;
        let at = self.count_start(lane, now);
        let probe = self.breaker.start();
        Ok(Started { at, probe })
    }

    /// Whether a request of `lane` may go now.
    pub fn look(&mut self, lane: Lane, now: Instant) -> Result<(), Hold> {
        self.expire(now);
        let breaker = self.breaker.look(&self.breaker_options, now);
        latest([
            self.advice_hold(),
            breaker.err(),
            self.window_hold(lane),
            self.slots_hold(lane, now),
        ])
    }

    /// Takes one more start under a slot that is held.
    pub fn again(&mut self, slot: &mut Slot, now: Instant) -> Result<(), Hold> {
        self.expire(now);
        let breaker = self
            .breaker
            .look_again(slot.probe, &self.breaker_options, now);
        latest([
            self.advice_hold(),
            breaker.err(),
            self.window_hold(slot.lane),
        ])?;
        slot.started = self.count_start(slot.lane, now);
        self.breaker.start_again(&mut slot.probe);
        Ok(())
    }

    /// Takes a slot back.
    pub fn release(&mut self, slot: &Slot, outcome: Outcome, now: Instant) {
        let in_flight = &mut self.in_flight[slot.lane.index()];
        *in_flight = in_flight.saturating_sub(1);
        self.used_at = now;
        let mut verdict = None;
        match outcome {
            Outcome::Cancelled => {}
            Outcome::Unused => self.uncount_start(slot),
            Outcome::Done { verdict: v, advice } => {
                verdict = Some(v);
                self.failures_total += u64::from(v == Verdict::Failure);
                self.heed(advice, now);
            }
        }
        self.breaker
            .end(slot.probe, verdict, &self.breaker_options, now);
    }

    /// Keeps the later end where two answers advise differently.
    pub fn heed(&mut self, advice: Option<Advice>, now: Instant) {
        let Some(advice) = advice else { return };
        let until = now + advice.wait.min(Advice::LONGEST);
        if until > now && self.advised.is_none_or(|(known, _)| known < until) {
            self.advised = Some((until, advice.why));
        }
    }

    /// Notes a start and returns its time: two callers may have read the clock in one order and
    /// come here in the other, and the log stays in order all the same.
    fn count_start(&mut self, lane: Lane, now: Instant) -> Instant {
        let at = self.starts.back().map_or(now, |(last, _)| now.max(*last));
        self.starts.push_back((at, lane));
        self.started[lane.index()] += 1;
        self.requests_total += 1;
        self.used_at = at;
        at
    }

    /// Takes back the start of a request that was never made.
    fn uncount_start(&mut self, slot: &Slot) {
        let first = self.starts.partition_point(|(at, _)| *at < slot.started);
        let same = self.starts.iter().enumerate().skip(first);
        let found = same
            .take_while(|(_, (at, _))| *at == slot.started)
            .find(|(_, (_, lane))| *lane == slot.lane);
        if let Some((place, _)) = found {
            self.starts.remove(place);
            self.started[slot.lane.index()] -= 1;
        }
        self.requests_total = self.requests_total.saturating_sub(1);
    }

    /// Forgets what is over.
    fn expire(&mut self, now: Instant) {
        while let Some((at, lane)) = self.starts.front().copied()
            && now.saturating_duration_since(at) >= self.limits.counted_for()
        {
            self.starts.pop_front();
            self.started[lane.index()] -= 1;
        }
        if self.advised.is_some_and(|(until, _)| until <= now) {
            self.advised = None;
        }
    }

    fn advice_hold(&self) -> Option<Hold> {
        let (until, _) = self.advised?;
        Some(Hold::new(Reason::Advised, until))
    }

    fn slots_hold(&self, lane: Lane, now: Instant) -> Option<Hold> {
        let kept = self.limits.reserved_slots();
        let fits = self.fits(lane, self.in_flight, self.started, kept, self.slots());
        (!fits).then(|| Hold::in_flight(now))
    }

    /// Walks through the coming ends of starts until a request fits.
    fn window_hold(&self, lane: Lane) -> Option<Hold> {
        let kept = self.limits.reserved_starts();
        let limit = self.limits.per_window.max(1);
        let mut started = self.started;
        let mut frees_at = None;
        let mut oldest = self.starts.iter();
        while !self.fits(lane, started, started, kept, limit) {
            let (at, lane) = oldest.next()?;
            started[lane.index()] -= 1;
            frees_at = Some(*at + self.limits.counted_for());
        }
        frees_at.map(|at| Hold::new(Reason::Window, at))
    }

    /// Whether one more of `lane` fits into `limit` beside what is in `used`, with `kept` of it
    /// left to the other lane if that lane uses the host at all.
    fn fits(&self, lane: Lane, used: [u32; 2], started: [u32; 2], kept: u32, limit: u32) -> bool {
        let other = lane.other().index();
        let shared = started[other] > 0 || self.in_flight[other] > 0;
        let kept = if shared { kept } else { 0 };
        used[0] + used[1] + kept.saturating_sub(used[other]) < limit
    }

    /// A limit of nothing would wait for an answer that cannot come.
    fn slots(&self) -> u32 {
        self.limits.in_flight.max(1)
    }

    /// Failures within the breaker's window.
    pub fn failures(&mut self, now: Instant) -> u32 {
        self.breaker.failures(&self.breaker_options, now)
    }

    /// Whether forgetting this host changes nothing for the host itself.
    pub fn is_blank(&mut self, now: Instant) -> bool {
        self.expire(now);
        self.in_flight == [0; 2]
            && self.starts.is_empty()
            && self.advised.is_none()
            && self.breaker.is_blank(&self.breaker_options, now)
    }

    pub fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.used_at)
    }
}

/// The hold that lasts longest; waiting for a slot only where time alone holds nothing.
fn latest<const N: usize>(holds: [Option<Hold>; N]) -> Result<(), Hold> {
    let rank = |hold: &Hold| (hold.reason != Reason::InFlight, hold.retry_at);
    match holds.into_iter().flatten().max_by_key(rank) {
        Some(hold) => Err(hold),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
