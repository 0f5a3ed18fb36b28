//! The accounts of all hosts: slots, windows, breakers and advice.
//!
//! One lock around all hosts: what happens under it takes well below a microsecond, and requests
//! to remote hosts are rare against that. Sweeps of idle hosts are the exception and are spaced.

use std::{collections::HashMap, sync::Arc, time::Duration};

use grip_types::Domain;
use tokio::time::Instant;

use crate::{
    Accounts, Advice, HostStatus, Lane, Mode, Options, Reason, Refused, Verdict, notifier::Notifier,
};

mod host;
mod script;

pub(crate) use host::RECHECK;
use host::{Hold, Host};

/// Least time between two sweeps of idle hosts while the map is full.
const SWEEP_SPACING: Duration = Duration::from_secs(5);

/// What every host was asked, as far as this process knows.
pub struct Hosts {
    options: Options,
    mode: Mode,
    hosts: HashMap<Domain, Host>,
    swept_at: Option<Instant>,
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

/// A slot that is held, after its latest start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    start: StartName,
    /// The round of the breaker that this request probes for.
    probe: Option<u64>,
    /// Whether Redis gave the probe.
    is_shared: bool,
}

/// One slot of one host.
#[derive(Debug)]
pub struct HostSlot {
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
    type Grant = HostSlot;
    type Outcome = Outcome;
    type Refusal = Refused;

    fn take(&mut self, request: &HostRequest, now: Instant) -> Result<HostSlot, Refused> {
        let (domain, lane) = (&request.domain, request.lane);
        let start = self.next_start(request);
        let host = self.open(domain, now)?;
        let taken = match request.under {
            None => host.take(lane, start, now),
            Some(under) => host.take_more(lane, start, under.local_probe(), now),
        };
        let probe = taken.map_err(|hold| hold.refused(domain))?;
        Ok(HostSlot {
            domain: domain.clone(),
            lane,
            held: Held {
                start,
                probe,
                is_shared: false,
            },
        })
    }

    fn settle(&mut self, slot: &HostSlot, outcome: Outcome, now: Instant) {
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

    fn dropped(_: &HostSlot, _: Instant) -> Outcome {
        Outcome::Cancelled
    }
}

impl Hosts {
    pub(crate) fn new(options: Options, notifier: Arc<Notifier>) -> Self {
        Self {
            options,
            mode: Mode::Local,
            hosts: HashMap::new(),
            swept_at: None,
            latest_token: 0,
            notifier,
        }
    }

    /// Whether a request would be refused, by what this process knows.
    pub(crate) fn is_throttled(&mut self, domain: &Domain, lane: Lane, now: Instant) -> bool {
        let is_shared = self.mode == Mode::Shared;
        let host = self.hosts.get_mut(domain);
        host.is_some_and(|host| {
            if is_shared {
                host.observed_hold(lane, now).is_some()
            } else {
                host.check(lane, now).is_err()
            }
        })
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

    /// The account of `domain`, opened if need be and if the map is not full.
    fn open(&mut self, domain: &Domain, now: Instant) -> Result<&mut Host, Refused> {
        if !self.hosts.contains_key(domain) {
            self.sweep(now).map_err(|hold| hold.refused(domain))?;
        }
        Ok(self.insert(domain, now))
    }

    fn insert(&mut self, domain: &Domain, now: Instant) -> &mut Host {
        let (options, mode) = (&self.options, self.mode);
        let host = self.hosts.entry(domain.clone());
        host.or_insert_with(|| Host::new(options.limits_in(mode, domain), options.breaker, now))
    }

    /// Forgets idle hosts now and then; at the bound also those that are only just idle.
    fn sweep(&mut self, now: Instant) -> Result<(), Hold> {
        let is_full = self.hosts.len() >= self.options.max_domains;
        let (spacing, idle) = if is_full {
            (SWEEP_SPACING, Duration::ZERO)
        } else {
            (self.options.forget_after / 2, self.options.forget_after)
        };
        let since = self.swept_at.map(|at| now.saturating_duration_since(at));
        if since.is_none_or(|since| since >= spacing) {
            self.swept_at = Some(now);
            self.forget(idle, now);
        }
        if self.hosts.len() < self.options.max_domains {
            return Ok(());
        }
        let next_sweep = self.swept_at.unwrap_or(now) + SWEEP_SPACING;
        Err(Hold::new(Reason::TooManyHosts, next_sweep))
    }

    /// Forgets hosts that were idle for `idle` and owe nothing.
    fn forget(&mut self, idle: Duration, now: Instant) {
        self.hosts
            .retain(|_, host| host.idle_for(now) < idle || !host.is_blank(now));
    }
}

impl HostSlot {
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
