//! What this process remembers beside Redis.
//!
//! Of every host: what was last seen in Redis, and our own starts within the window, so that a
//! Redis that lost them can be told. Of every slot that is out: where it belongs. And while Redis
//! is away, the books that are kept instead of it ([`fallback`]).
//!
//! Bounded: hosts as the settings say, starts by the limits of each host, slots by the permits
//! that the process holds.

use std::collections::HashMap;

use grip_types::Domain;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    job::Settle,
    reply::{Reply, Seen},
    scripts::{Renewal, StartName},
};
use crate::{
    HostStatus, Lane, Options, Refused,
    host::Hold,
    ledger::{Outcome, Slot},
};

mod fallback;
mod known;
mod room;
mod status;
#[cfg(test)]
mod tests;

use known::{Known, Start};

pub(super) struct Books {
    options: Options,
    /// The settings while Redis is away.
    part: Options,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hosts: HashMap<Domain, Known>,
    held: HashMap<u64, Held>,
    latest_token: u64,
    swept_at: Option<Instant>,
    fallback: Option<fallback::Fallback>,
}

/// One slot that is out.
struct Held {
    domain: Domain,
    lane: Lane,
    /// Its latest start.
    latest: StartName,
    /// The same slot in the books that stand in for Redis.
    stand_in: Option<Slot>,
}

impl Books {
    pub fn new(options: Options, percent: u32) -> Self {
        Self {
            part: options.part(percent),
            options,
            state: Mutex::default(),
        }
    }

    /// Sees that there is room for `domain`, and names a new slot.
    pub fn open(&self, domain: &Domain, now: Instant) -> Result<u64, Refused> {
        let mut state = self.state.lock();
        if !state.hosts.contains_key(domain) {
            state
                .make_room(&self.options, now)
                .map_err(|hold| refused(domain, hold))?;
            state.know(domain, &self.options, now);
        }
        Ok(state.next_token())
    }

    /// Notes a slot that Redis gave out.
    pub fn granted(&self, domain: &Domain, lane: Lane, token: u64, reply: Reply) -> Slot {
        let now = reply.seen.at;
        let probe = reply.probe;
        let mut state = self.state.lock();
        state.know(domain, &self.options, now);
        state.see(domain, reply.seen);
        state.take(domain, lane, token, None, now);
        Slot {
            domain: domain.clone(),
            lane,
            started: now,
            probe,
            token,
        }
    }

    /// Notes what a host looks like.
    pub fn see(&self, domain: &Domain, seen: Seen) {
        self.state.lock().see(domain, seen);
    }

    /// The name of the next start under a slot.
    pub fn next_start(&self, slot: &Slot) -> StartName {
        let state = self.state.lock();
        let latest = state.held.get(&slot.token).map_or(0, |h| h.latest.number);
        StartName {
            token: slot.token,
            number: latest + 1,
        }
    }

    /// Notes a further start that Redis gave out.
    pub fn granted_again(&self, slot: &mut Slot, name: StartName, reply: Reply) {
        slot.started = reply.seen.at;
        slot.probe = reply.probe;
        let mut state = self.state.lock();
        state.see(&slot.domain, reply.seen);
        state.start(&slot.domain, slot.lane, name, true, slot.started);
    }

    /// Takes a slot back; what is left to do is to tell Redis.
    pub fn release(&self, slot: Slot, outcome: Outcome) -> Option<Settle> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let held = state.held.remove(&slot.token)?;
        let (verdict, advice) = match outcome {
            Outcome::Done { verdict, advice } => (Some(verdict), advice),
            Outcome::Cancelled | Outcome::Unused => (None, None),
        };
        let unused = (outcome == Outcome::Unused).then_some(held.latest);
        if let Some(known) = state.hosts.get_mut(&slot.domain) {
            known.ended(unused, verdict, advice, now);
        }
        if let (Some(fallback), Some(stand_in)) = (&mut state.fallback, held.stand_in) {
            fallback.release(&stand_in, outcome, now);
        }
        drop(state);
        Some(Settle {
            domain: slot.domain,
            lane: slot.lane,
            token: slot.token,
            unused,
            verdict,
            advice,
            probe: slot.probe,
            at: now,
        })
    }

    /// Slots to renew, and starts that Redis does not know of; `all` where it may know nothing.
    pub fn renewals(&self, all: bool, now: Instant) -> Vec<Renewal> {
        let mut state = self.state.lock();
        let mut found: HashMap<(Domain, Lane), Renewal> = HashMap::new();
        let mut renewal = |domain: &Domain, lane, add: &mut dyn FnMut(&mut Renewal)| {
            let of = found.entry((domain.clone(), lane));
            add(of.or_insert_with(|| Renewal {
                domain: domain.clone(),
                lane,
                slots: Vec::new(),
                starts: Vec::new(),
            }));
        };
        for (token, held) in &state.held {
            renewal(&held.domain, held.lane, &mut |r| r.slots.push(*token));
        }
        for (domain, known) in &mut state.hosts {
            known.expire(now);
            for start in known.starts.iter_mut().filter(|start| all || !start.told) {
                start.told = false;
                renewal(domain, start.lane, &mut |r| {
                    r.starts.push((start.name, start.at));
                });
            }
        }
        found.into_values().collect()
    }

    /// Notes that Redis knows of these starts now.
    pub fn told(&self, renewal: &Renewal) {
        let mut state = self.state.lock();
        let Some(known) = state.hosts.get_mut(&renewal.domain) else {
            return;
        };
        for (name, _) in &renewal.starts {
            if let Some(start) = known.starts.iter_mut().find(|start| start.name == *name) {
                start.told = true;
            }
        }
    }

    pub fn is_throttled(&self, domain: &Domain, lane: Lane) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        let known = state.hosts.get(domain);
        if known.is_some_and(|known| known.hold(lane, now).is_some()) {
            return true;
        }
        let alone = state.fallback.as_mut();
        alone.is_some_and(|alone| alone.is_throttled(domain, lane, now))
    }

    pub fn failures(&self, domain: &Domain) -> u32 {
        let mut state = self.state.lock();
        let now = Instant::now();
        let seen = state.hosts.get(domain).and_then(|k| k.seen.as_ref());
        let age = |seen: &Seen| now.saturating_duration_since(seen.at);
        let fresh = seen.filter(|seen| age(seen) < self.options.breaker.window);
        let shared = fresh.map_or(0, |seen| seen.failures);
        let alone = state.fallback.as_mut();
        shared.max(alone.map_or(0, |alone| alone.failures(domain, now)))
    }

    pub fn hosts(&self) -> Vec<HostStatus> {
        let mut state = self.state.lock();
        let now = Instant::now();
        // Does not count as a look for room: who watches the list must not put that off.
        state.forget(self.options.forget_after, now);
        state.statuses(now)
    }
}

impl State {
    fn next_token(&mut self) -> u64 {
        self.latest_token += 1;
        self.latest_token
    }

    /// Sees that the host is in the books. While it was asked about, it may have been forgotten
    /// to make room: then these few are above the bound.
    fn know(&mut self, domain: &Domain, options: &Options, now: Instant) {
        if !self.hosts.contains_key(domain) {
            let known = Known::new(options.limits_of(domain), now);
            self.hosts.insert(domain.clone(), known);
        }
    }

    fn see(&mut self, domain: &Domain, seen: Seen) {
        if let Some(known) = self.hosts.get_mut(domain)
            && known.seen.as_ref().is_none_or(|old| old.at <= seen.at)
        {
            known.seen = Some(seen);
        }
    }

    /// Notes a slot and its first start. A slot with a stand-in is one that Redis has not heard of.
    fn take(&mut self, domain: &Domain, lane: Lane, token: u64, own: Option<Slot>, now: Instant) {
        let latest = StartName { token, number: 0 };
        let told = own.is_none();
        let held = Held {
            domain: domain.clone(),
            lane,
            latest,
            stand_in: own,
        };
        self.held.insert(token, held);
        let first = StartName { token, number: 1 };
        self.start(domain, lane, first, told, now);
    }

    fn start(&mut self, domain: &Domain, lane: Lane, name: StartName, told: bool, at: Instant) {
        if let Some(held) = self.held.get_mut(&name.token) {
            held.latest = name;
        }
        let Some(known) = self.hosts.get_mut(domain) else {
            return;
        };
        known.expire(at);
        known.starts.push_back(Start {
            name,
            lane,
            at,
            told,
        });
        known.requests_total += 1;
        known.used_at = at;
    }
}

fn refused(domain: &Domain, hold: Hold) -> Refused {
    Refused {
        domain: domain.clone(),
        reason: hold.reason,
        retry_at: hold.retry_at,
    }
}
