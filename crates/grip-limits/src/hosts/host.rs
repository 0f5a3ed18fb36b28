//! The account of one host.
//!
//! Pure: time is an argument. A start counts until a whole window and a small margin have passed,
//! so that no window of that length ever holds more than the limit, neither here nor where the
//! requests arrive.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use grip_types::Domain;
use tokio::time::Instant;

use super::{
    HostPermit, Outcome, StartName,
    evicted::{Closed, Departure},
};
use crate::{
    Advice, BreakerOptions, BreakerState, ClosedReason, HostClosed, HostHistory, HostStatus, Lane,
    Limits, Reason, Refused, Verdict, Why,
    breaker::{Blocked, Breaker},
};

/// Guess at how long a request takes: when to ask again where only a response frees a slot.
pub(crate) const REQUEST_TAKES: Duration = Duration::from_secs(1);

/// How soon to ask again where only the end of another instance's request helps, of which there is
/// no notice.
pub(crate) const RECHECK: Duration = Duration::from_millis(250);

/// How long the number of requests that all instances have in flight is worth showing.
const OBSERVED_IN_FLIGHT: Duration = Duration::from_secs(2);

/// One of so many parts of the average is the newest time.
const LATENCY_WEIGHT: u32 = 4;

/// What is known about one host.
#[derive(Debug)]
pub(super) struct Host {
    pub limits: Limits,
    breaker_options: BreakerOptions,
    /// Own starts within the window, oldest first; never more than `limits.per_window`.
    starts: VecDeque<Start>,
    /// How many of them are of each lane.
    started: [u32; 2],
    /// Own slots that are taken. Bounded by the permits that the process holds.
    held: HashMap<u64, Lane>,
    in_flight: [u32; 2],
    breaker: Breaker,
    advised: Option<(Instant, Why)>,
    /// All instances together, where they share the host.
    observed: Option<Observed>,
    used_at: Instant,
    requests_total: u64,
    failures_total: u64,
    successes_total: u64,
    /// Moving average of the time to the head of a response.
    latency: Option<Duration>,
}

/// A start of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    pub name: StartName,
    pub lane: Lane,
    pub at: Instant,
    /// Whether Redis knows of it.
    pub is_shared: bool,
}

/// A host as all instances together know it.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// What keeps each lane out.
    pub holds: [Option<Hold>; 2],
    pub in_flight: u32,
    pub started: u32,
    pub breaker: BreakerState,
    pub open_until: Option<Instant>,
    pub advised: Option<(Instant, Why)>,
    pub failures: u32,
    pub at: Instant,
}

/// Why no request may go, and when asking again may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub reason: Reason,
    pub retry_at: Instant,
}

impl Hold {
    pub fn new(reason: Reason, retry_at: Instant) -> Self {
        Self { reason, retry_at }
    }

    pub fn in_flight(now: Instant) -> Self {
        Self::new(Reason::InFlight, now + REQUEST_TAKES)
    }

    fn by_breaker(blocked: Blocked, now: Instant) -> Self {
        match blocked {
            Blocked::OpenUntil(until) => Self::new(Reason::BreakerOpen, until),
            Blocked::Probing => Self::in_flight(now),
        }
    }

    pub fn refused(self, domain: &Domain) -> Refused {
        Refused {
            domain: domain.clone(),
            reason: self.reason,
            retry_at: self.retry_at,
        }
    }
}

impl Host {
    pub fn new(limits: Limits, breaker_options: BreakerOptions, now: Instant) -> Self {
        Self {
            limits,
            breaker_options,
            starts: VecDeque::new(),
            started: [0; 2],
            held: HashMap::new(),
            in_flight: [0; 2],
            breaker: Breaker::default(),
            advised: None,
            observed: None,
            used_at: now,
            requests_total: 0,
            failures_total: 0,
            successes_total: 0,
            latency: None,
        }
    }

    /// What must be kept of a host that leaves the table.
    pub fn depart(mut self, now: Instant) -> Departure {
        self.expire(now);
        let is_open = self.breaker.state(now) == BreakerState::Open;
        Departure {
            closed: Closed {
                advised: self.advised,
                open_until: self.breaker.open_until().filter(|_| is_open),
            },
            starts: self.starts,
        }
    }

    /// Takes over what was kept of it while it was not in the table.
    pub fn reopen(&mut self, closed: Closed, now: Instant) {
        if let Some((until, why)) = closed.advised {
            self.heed_until(until, why, now);
        }
        if closed.open_until.is_some() {
            self.breaker.adopt(BreakerState::Open, closed.open_until);
        }
    }

    /// Counts starts from before it came back, which may be those of others.
    pub fn count_former(&mut self, starts: &VecDeque<Start>) {
        for start in starts {
            self.starts.push_back(Start {
                name: StartName::FORMER,
                is_shared: true,
                ..*start
            });
            self.started[start.lane.index()] += 1;
        }
    }

    pub fn has_succeeded(&self) -> bool {
        self.successes_total > 0
    }

    pub fn history(&self) -> HostHistory {
        HostHistory {
            successes: self.successes_total,
            failures: self.failures_total,
            latency: self.latency,
        }
    }

    /// Notes how long the head of a response took.
    pub fn responded(&mut self, took: Duration) {
        let average = |old: Duration| (old * (LATENCY_WEIGHT - 1) + took) / LATENCY_WEIGHT;
        self.latency = Some(self.latency.map_or(took, average));
    }

    /// Whether no request is in flight.
    pub fn is_idle(&self) -> bool {
        self.in_flight == [0; 2]
    }

    /// Whether it is to be left alone for a while.
    pub fn is_closed(&mut self, now: Instant) -> bool {
        self.expire(now);
        self.advised.is_some() || self.breaker.state(now) == BreakerState::Open
    }

    /// Takes a slot and its first start; returns its probe.
    pub fn take(
        &mut self,
        lane: Lane,
        start: StartName,
        now: Instant,
    ) -> Result<Option<u64>, Hold> {
        self.check(lane, now)?;
        self.hold_slot(start.token, lane);
        self.count_start(start, lane, false, now);
        Ok(self.breaker.start())
    }

    /// Takes one more start under a slot that is held; returns its probe.
    pub fn take_more(
        &mut self,
        lane: Lane,
        start: StartName,
        probe: Option<u64>,
        now: Instant,
    ) -> Result<Option<u64>, Hold> {
        self.expire(now);
        let breaker = self.breaker.check_next(probe, &self.breaker_options, now);
        latest([
            self.advice_hold(),
            breaker.err().map(|blocked| Hold::by_breaker(blocked, now)),
            self.window_hold(lane),
        ])?;
        self.count_start(start, lane, false, now);
        Ok(self.breaker.start_next(probe))
    }

    /// Notes a start that Redis gave, and its slot if that is new. `probe`: of this process's own
    /// breaker, which the start before it had.
    pub fn granted(&mut self, lane: Lane, start: StartName, probe: Option<u64>, now: Instant) {
        self.expire(now);
        self.breaker.end(probe, None, &self.breaker_options, now);
        self.hold_slot(start.token, lane);
        self.count_start(start, lane, true, now);
    }

    /// Whether a request of `lane` may go now.
    pub fn check(&mut self, lane: Lane, now: Instant) -> Result<(), Hold> {
        self.expire(now);
        let breaker = self.breaker.check(&self.breaker_options, now);
        latest([
            self.advice_hold(),
            breaker.err().map(|blocked| Hold::by_breaker(blocked, now)),
            self.window_hold(lane),
            self.slots_hold(lane, now),
        ])
    }

    /// Takes a slot back. `is_shared`: the breaker of all instances decides, not that of this
    /// process.
    pub fn settle(&mut self, slot: &HostPermit, outcome: Outcome, is_shared: bool, now: Instant) {
        if self.held.remove(&slot.held.start.token).is_some() {
            self.in_flight[slot.lane.index()] -= 1;
        }
        self.used_at = now;
        let mut verdict = None;
        match outcome {
            Outcome::Cancelled => {}
            Outcome::Unused => self.uncount_start(slot.held.start),
            Outcome::Done { verdict: v, advice } => {
                verdict = Some(v).filter(|_| !is_shared);
                self.failures_total += u64::from(v == Verdict::Failure);
                self.successes_total += u64::from(v == Verdict::Success);
                self.heed(advice, now);
            }
        }
        self.breaker
            .end(slot.held.local_probe(), verdict, &self.breaker_options, now);
    }

    /// Keeps the later end where two responses advise differently.
    fn heed(&mut self, advice: Option<Advice>, now: Instant) {
        let Some(advice) = advice else { return };
        let until = now + advice.wait.min(Advice::LONGEST);
        self.heed_until(until, advice.why, now);
    }

    fn heed_until(&mut self, until: Instant, why: Why, now: Instant) {
        if until > now && self.advised.is_none_or(|(known, _)| known < until) {
            self.advised = Some((until, why));
        }
    }

    /// Notes the host as all instances know it. Responses may come in another order than they were
    /// made in.
    pub fn observe(&mut self, observed: Observed) {
        if self.observed.as_ref().is_some_and(|o| o.at > observed.at) {
            return;
        }
        if let Some((until, why)) = observed.advised {
            self.heed_until(until, why, observed.at);
        }
        self.breaker.adopt(observed.breaker, observed.open_until);
        self.observed = Some(observed);
    }

    fn hold_slot(&mut self, token: u64, lane: Lane) {
        if self.held.insert(token, lane).is_none() {
            self.in_flight[lane.index()] += 1;
        }
    }

    /// Notes a start: two callers may have read the clock in one order and come here in the other,
    /// and the log stays in order all the same.
    fn count_start(&mut self, name: StartName, lane: Lane, is_shared: bool, now: Instant) {
        let at = self.starts.back().map_or(now, |last| now.max(last.at));
        self.starts.push_back(Start {
            name,
            lane,
            at,
            is_shared,
        });
        self.started[lane.index()] += 1;
        self.requests_total += 1;
        self.used_at = at;
    }

    /// Takes back the start of a request that was never made.
    fn uncount_start(&mut self, name: StartName) {
        let place = self.starts.iter().rposition(|start| start.name == name);
        if let Some(start) = place.and_then(|place| self.starts.remove(place)) {
            self.started[start.lane.index()] -= 1;
        }
        self.requests_total = self.requests_total.saturating_sub(1);
    }

    /// Forgets what is over.
    fn expire(&mut self, now: Instant) {
        while let Some(start) = self.starts.front()
            && now.saturating_duration_since(start.at) >= self.limits.counted_for()
        {
            self.started[start.lane.index()] -= 1;
            self.starts.pop_front();
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
        let reserved = self.limits.reserved_slots();
        let limit = self.limits.slots();
        let fits = self.fits(lane, self.in_flight, self.started, reserved, limit);
        (!fits).then(|| Hold::in_flight(now))
    }

    /// Walks through the coming ends of starts until a request fits.
    fn window_hold(&self, lane: Lane) -> Option<Hold> {
        let reserved = self.limits.reserved_starts();
        let limit = self.limits.starts();
        let mut started = self.started;
        let mut frees_at = None;
        let mut oldest = self.starts.iter();
        while !self.fits(lane, started, started, reserved, limit) {
            let start = oldest.next()?;
            started[start.lane.index()] -= 1;
            frees_at = Some(start.at + self.limits.counted_for());
        }
        frees_at.map(|at| Hold::new(Reason::Window, at))
    }

    /// Whether one more of `lane` fits into `limit` beside what is in `used`, with `reserved` of it
    /// left to the other lane if that lane uses the host at all.
    fn fits(
        &self,
        lane: Lane,
        used: [u32; 2],
        started: [u32; 2],
        reserved: u32,
        limit: u32,
    ) -> bool {
        let other = lane.other().index();
        let is_shared = started[other] > 0 || self.in_flight[other] > 0;
        let reserved = if is_shared { reserved } else { 0 };
        used[0] + used[1] + reserved.saturating_sub(used[other]) < limit
    }

    /// What keeps `lane` out by what was observed last. A full house is believed only for a moment:
    /// others leave it without notice.
    pub fn observed_hold(&mut self, lane: Lane, now: Instant) -> Option<Hold> {
        self.expire(now);
        let observed = self.observed.as_ref();
        let hold = observed.and_then(|observed| {
            let hold = observed.holds[lane.index()]?;
            let is_fresh = match hold.reason {
                Reason::InFlight => observed.at + RECHECK > now,
                _ => hold.retry_at > now,
            };
            is_fresh.then_some(hold)
        });
        let open_until = self.breaker.open_until().filter(|until| *until > now);
        hold.or_else(|| self.advice_hold())
            .or_else(|| open_until.map(|until| Hold::new(Reason::BreakerOpen, until)))
    }

    /// Failures within the breaker's window, of this process or of all.
    pub fn failures(&mut self, now: Instant) -> u32 {
        let observed = self.observed.as_ref().filter(|observed| {
            now.saturating_duration_since(observed.at) < self.breaker_options.window
        });
        let observed = observed.map_or(0, |observed| observed.failures);
        observed.max(self.breaker.failures(&self.breaker_options, now))
    }

    /// Whether forgetting this host changes nothing for the host itself.
    pub fn is_blank(&mut self, now: Instant) -> bool {
        self.expire(now);
        // Where instances share the breaker, one that is half open is kept by them.
        let breaker = match self.observed {
            None => self.breaker.is_blank(&self.breaker_options, now),
            Some(_) => self.breaker.state(now) != BreakerState::Open,
        };
        self.in_flight == [0; 2] && self.starts.is_empty() && self.advised.is_none() && breaker
    }

    pub fn idle_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.used_at)
    }

    /// Own slots and own starts within the window.
    pub fn own(&mut self, now: Instant) -> (&HashMap<u64, Lane>, &VecDeque<Start>) {
        self.expire(now);
        (&self.held, &self.starts)
    }

    /// How long the host is to be left alone because it said so.
    pub fn advice(&self, now: Instant) -> Option<Advice> {
        let (until, why) = self.advised.filter(|(until, _)| *until > now)?;
        let wait = until - now;
        Some(Advice { wait, why })
    }

    /// Notes that Redis knows a start.
    pub fn confirm_start(&mut self, name: StartName) {
        if let Some(start) = self.starts.iter_mut().find(|start| start.name == name) {
            start.is_shared = true;
        }
    }

    /// The status for operators: of all instances while that is fresh (`is_shared`), else of this
    /// process.
    pub fn status(&mut self, domain: &Domain, is_shared: bool, now: Instant) -> HostStatus {
        self.expire(now);
        let observed = self.observed.as_ref().filter(|_| is_shared);
        let age = |observed: &&Observed| now.saturating_duration_since(observed.at);
        let in_flight = observed.filter(|observed| age(observed) < OBSERVED_IN_FLIGHT);
        let started = observed.filter(|observed| age(observed) < self.limits.window);
        HostStatus {
            domain: domain.clone(),
            in_flight: in_flight.map_or(self.in_flight.iter().sum(), |o| o.in_flight),
            in_flight_limit: self.limits.slots(),
            started: started.map_or(self.started.iter().sum(), |o| o.started),
            window_limit: self.limits.starts(),
            closed: self.closed(is_shared, now),
            breaker: self.breaker.state(now),
            requests_total: self.requests_total,
            failures_total: self.failures_total,
        }
    }

    /// What keeps every lane out for longest.
    fn closed(&self, is_shared: bool, now: Instant) -> Option<HostClosed> {
        let window = match (is_shared, &self.observed) {
            (true, Some(observed)) => observed.holds,
            (true, None) => [None; 2],
            (false, _) => [Lane::Git, Lane::Api].map(|lane| self.window_hold(lane)),
        };
        let window = match window {
            [Some(a), Some(b)] if a.reason == Reason::Window && b.reason == Reason::Window => {
                Some(a.retry_at.min(b.retry_at))
            }
            _ => None,
        };
        let advised = self.advised.map(|(until, why)| (until, why.into()));
        let open_until = self.breaker.open_until();
        let candidates = [
            advised,
            open_until.map(|until| (until, ClosedReason::Breaker)),
            window.map(|until| (until, ClosedReason::Window)),
        ];
        let candidates = candidates.into_iter().flatten();
        let (until, why) = candidates
            .filter(|(until, _)| *until > now)
            .max_by_key(|(until, _)| *until)?;
        let left = until.saturating_duration_since(now);
        let for_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Some(HostClosed { for_ms, why })
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
