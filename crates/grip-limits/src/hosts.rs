//! The accounts of all hosts: slots, windows, breakers and advice.
//!
//! One lock around all hosts: what happens under it takes well below a microsecond, and requests
//! to remote hosts are rare against that. Sweeps are the exception: of idle hosts they are spaced,
//! and where room is needed an eighth of the table leaves at once.
//!
//! Whose share is used up: names are free, so a stranger can bring any number of them. He cannot
//! keep others out: the host used longest ago leaves for a new one, those first that are to be left
//! alone anyway, and what it was asked stays counted (`departed`). Hosts that the operator named
//! have room of their own.

use std::{collections::HashMap, sync::Arc, time::Duration};

use grip_types::Domain;
use tokio::time::Instant;

use crate::{
    Accounts, Advice, HostHistory, HostStatus, Lane, Mode, Options, Reason, Refused, Verdict,
    notifier::Notifier,
};

mod evicted;
mod host;
mod script;

use evicted::Departed;
use host::{Hold, Host};
pub(crate) use host::{RECHECK, REQUEST_TAKES};

/// How long no room is looked for after none was found: every host has a request in flight.
const SWEEP_SPACING: Duration = Duration::from_secs(5);
/// The part of the table that leaves at once where room is needed.
const LEAVES: usize = 8;

/// What every host was asked, as far as this process knows.
pub struct Hosts {
    options: Options,
    mode: Mode,
    hosts: HashMap<Domain, Host>,
    departed: Departed,
    swept_at: Option<Instant>,
    /// When room was looked for without finding any.
    stuck_at: Option<Instant>,
    latest_token: u64,
    notifier: Arc<Notifier>,
}

/// What a permit is asked for: a request to a host, or a further one under a slot.
#[derive(Clone, Debug)]
pub struct HostRequest {
    pub(crate) domain: Domain,
    pub(crate) lane: Lane,
    pub(crate) under: Option<Held>,
}

/// One start under one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartName {
    /// The slot.
    token: u64,
    /// Counts the starts under the slot from 1.
    number: u32,
}

impl StartName {
    /// A start of which no slot is known any more.
    const FORMER: Self = Self {
        token: 0,
        number: 0,
    };
}

/// A slot that is held, after its latest start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    start: StartName,
    /// The round of the breaker that this request probes for.
    probe: Option<u64>,
    /// Whether Redis gave the probe.
    is_shared: bool,
}

/// One slot of one host, as the accounts know it: [`crate::Permit`] holds it and gives it back on drop.
#[derive(Debug)]
pub struct HostPermit {
    pub(crate) domain: Domain,
    pub(crate) lane: Lane,
    held: Held,
}

/// How the use of a slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The permit was dropped: the start stays counted, the breaker learns nothing.
    Cancelled,
    /// No request was made since the latest start: it is given back too.
    Unused,
    /// The host responded, or failed to.
    Done {
        verdict: Verdict,
        advice: Option<Advice>,
    },
}

impl Accounts for Hosts {
    type Key = HostRequest;
    type Grant = HostPermit;
    type Outcome = Outcome;
    type Refusal = Refused;

    fn take(&mut self, request: &HostRequest, now: Instant) -> Result<HostPermit, Refused> {
        let (domain, lane) = (&request.domain, request.lane);
        let start = self.next_start(request);
        let host = self.open(domain, now)?;
        let taken = match request.under {
            None => host.take(lane, start, now),
            Some(under) => host.take_more(lane, start, under.local_probe(), now),
        };
        let probe = taken.map_err(|hold| hold.refused(domain))?;
        Ok(HostPermit {
            domain: domain.clone(),
            lane,
            held: Held {
                start,
                probe,
                is_shared: false,
            },
        })
    }

    fn settle(&mut self, slot: &HostPermit, outcome: Outcome, now: Instant) {
        let is_shared = self.mode == Mode::Shared;
        if let Some(host) = self.hosts.get_mut(&slot.domain) {
            host.settle(slot, outcome, is_shared, now);
        }
        // A caller that asks before Redis has been told finds the slot taken: then
        // `confirmed` notifies.
        if !is_shared {
            self.notifier.notify(&slot.domain);
        }
    }

    fn dropped(_: &HostPermit, _: Instant) -> Outcome {
        Outcome::Cancelled
    }
}

impl Hosts {
    pub(crate) fn new(options: Options, notifier: Arc<Notifier>) -> Self {
        Self {
            options,
            mode: Mode::Local,
            hosts: HashMap::new(),
            departed: Departed::default(),
            swept_at: None,
            stuck_at: None,
            latest_token: 0,
            notifier,
        }
    }

    /// Whether a request would be refused, by what this process knows.
    pub(crate) fn is_throttled(&mut self, domain: &Domain, lane: Lane, now: Instant) -> bool {
        let is_shared = self.mode == Mode::Shared;
        match self.hosts.get_mut(domain) {
            Some(host) if is_shared => host.observed_hold(lane, now).is_some(),
            Some(host) => host.check(lane, now).is_err(),
            None => self.departed.hold(domain, now).is_some(),
        }
    }

    /// Whether a host has answered a request well since it is known.
    pub(crate) fn has_succeeded(&self, domain: &Domain) -> bool {
        self.hosts.get(domain).is_some_and(Host::has_succeeded)
    }

    pub(crate) fn history(&self, domain: &Domain) -> HostHistory {
        let host = self.hosts.get(domain);
        host.map(Host::history).unwrap_or_default()
    }

    pub(crate) fn responded(&mut self, domain: &Domain, took: Duration) {
        if let Some(host) = self.hosts.get_mut(domain) {
            host.responded(took);
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Hosts that left the table and are still to be left alone.
    pub(crate) fn departed(&self) -> usize {
        self.departed.closed_len()
    }

    /// Failures within the breaker's window.
    pub(crate) fn failures(&mut self, domain: &Domain, now: Instant) -> u32 {
        let host = self.hosts.get_mut(domain);
        host.map_or(0, |host| host.failures(now))
    }

    /// Every host, ordered by name.
    pub(crate) fn statuses(&mut self, now: Instant) -> Vec<HostStatus> {
        // Does not count as a sweep: looking at the list must not put one off.
        self.forget(self.options.forget_after, now);
        let is_shared = self.mode == Mode::Shared;
        let hosts = self.hosts.iter_mut();
        let mut hosts: Vec<_> = hosts
            .map(|(domain, host)| host.status(domain, is_shared, now))
            .collect();
        hosts.sort_by(|a, b| a.domain.cmp(&b.domain));
        hosts
    }

    /// The name of the start that `request` asks for.
    fn next_start(&mut self, request: &HostRequest) -> StartName {
        match request.under {
            Some(Held { start, .. }) => StartName {
                number: start.number + 1,
                ..start
            },
            None => {
                self.latest_token += 1;
                StartName {
                    token: self.latest_token,
                    number: 1,
                }
            }
        }
    }

    /// The account of `domain`, opened if need be.
    fn open(&mut self, domain: &Domain, now: Instant) -> Result<&mut Host, Refused> {
        if !self.hosts.contains_key(domain) {
            let hold = self.departed.hold(domain, now);
            let room = hold.map_or_else(|| self.make_room(domain, now), Err);
            room.map_err(|hold| hold.refused(domain))?;
        }
        Ok(self.insert(domain, now))
    }

    fn insert(&mut self, domain: &Domain, now: Instant) -> &mut Host {
        let (options, mode, departed) = (&self.options, self.mode, &mut self.departed);
        let host = self.hosts.entry(domain.clone());
        host.or_insert_with(|| {
            let limits = options.limits_in(mode, domain);
            let mut host = Host::new(limits, options.breaker, now);
            // Where instances share the window, Redis has counted them.
            let counts_starts = mode != Mode::Shared;
            departed.restore(domain, &mut host, counts_starts, now);
            host
        })
    }

    /// Forgets idle hosts now and then, and where the table is full has others leave it.
    fn make_room(&mut self, domain: &Domain, now: Instant) -> Result<(), Hold> {
        let forget_after = self.options.forget_after;
        let age = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        if age(self.swept_at).is_none_or(|age| age >= forget_after / 2) {
            self.swept_at = Some(now);
            self.forget(forget_after, now);
        }
        if !self.is_full() || self.options.is_configured(domain) {
            return Ok(());
        }
        if age(self.stuck_at).is_none_or(|age| age >= SWEEP_SPACING) {
            self.forget(Duration::ZERO, now);
            if self.is_full() {
                self.dismiss(now);
            }
            self.stuck_at = self.is_full().then_some(now);
        }
        match self.stuck_at {
            Some(at) => Err(Hold::new(Reason::TooManyHosts, at + SWEEP_SPACING)),
            None => Ok(()),
        }
    }

    fn is_full(&self) -> bool {
        self.hosts.len() >= self.options.max_domains + self.options.configured_len()
    }

    /// Has an eighth of the hosts leave that have no request in flight: first those that are to be
    /// left alone anyway, then those used longest ago.
    fn dismiss(&mut self, now: Instant) {
        let Self { options, hosts, .. } = self;
        let idle = hosts
            .iter_mut()
            .filter(|(domain, host)| host.is_idle() && !options.is_configured(domain));
        let mut idle: Vec<(bool, Duration, Domain)> = idle
            .map(|(domain, host)| (host.is_closed(now), host.idle_for(now), domain.clone()))
            .collect();
        let count = (options.max_domains / LEAVES).max(1).min(idle.len());
        if count == 0 {
            return;
        }
        idle.select_nth_unstable_by(count - 1, |a, b| b.cmp(a));
        idle.truncate(count);
        let limits = options.limits;
        for (_, _, domain) in idle {
            if let Some(host) = hosts.remove(&domain) {
                let (counted_for, most) = (limits.counted_for(), limits.starts() as usize);
                let departure = host.depart(now);
                self.departed
                    .add(&domain, departure, counted_for, most, now);
            }
        }
    }

    /// Forgets hosts that were idle for `idle` and owe nothing.
    fn forget(&mut self, idle: Duration, now: Instant) {
        self.hosts
            .retain(|_, host| host.idle_for(now) < idle || !host.is_blank(now));
    }
}

impl HostPermit {
    /// A further request under this slot.
    pub(crate) fn further(&self) -> HostRequest {
        HostRequest {
            domain: self.domain.clone(),
            lane: self.lane,
            under: Some(self.held),
        }
    }
}

impl Held {
    /// The probe, where the breaker of this process gave it.
    fn local_probe(&self) -> Option<u64> {
        self.probe.filter(|_| !self.is_shared)
    }

    /// The probe, where Redis gave it.
    fn shared_probe(&self) -> Option<u64> {
        self.probe.filter(|_| self.is_shared)
    }
}

#[cfg(test)]
mod tests;
