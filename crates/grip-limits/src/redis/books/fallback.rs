//! The books while Redis is away: this process alone, with a part of every limit.
//!
//! They are opened anew for every absence and begin with what this process itself did within the
//! window, so that losing Redis never lets a host be asked more than before. Bounded: only hosts
//! that are in the books beside Redis are in these.

use std::collections::HashMap;

use grip_types::Domain;
use tokio::time::Instant;

use super::{Books, Held, Known, Start, State, refused};
use crate::{
    HostStatus, Lane, Options, Refused,
    host::{Hold, Host},
    ledger::{Outcome, Slot},
};

pub(super) struct Fallback {
    /// The absence these books are for.
    generation: u64,
    part: Options,
    hosts: HashMap<Domain, Host>,
}

impl Books {
    /// Takes a slot and a start without Redis.
    pub fn take_alone(
        &self,
        domain: &Domain,
        lane: Lane,
        generation: u64,
    ) -> Result<Slot, Refused> {
        let mut state = self.state.lock();
        // Read under the lock, so that it does not go back in the books.
        let now = Instant::now();
        state.know(domain, &self.options, now);
        state.open_alone(&self.part, generation, now);
        let taken = state.ask_alone(domain, lane, now);
        let stand_in = taken.map_err(|hold| refused(domain, hold))?;
        let token = state.next_token();
        let slot = Slot {
            domain: domain.clone(),
            // The round of a probe is that of these books only.
            probe: None,
            token,
            ..stand_in
        };
        state.take(domain, lane, token, Some(stand_in), now);
        Ok(slot)
    }

    /// Takes one more start under a slot without Redis.
    pub fn again_alone(&self, slot: &mut Slot, generation: u64) -> Result<(), Refused> {
        let name = self.next_start(slot);
        let mut state = self.state.lock();
        let now = Instant::now();
        state.open_alone(&self.part, generation, now);
        let taken = state.again_alone(slot, now);
        taken.map_err(|hold| refused(&slot.domain, hold))?;
        state.start(&slot.domain, slot.lane, name, false, now);
        slot.started = now;
        Ok(())
    }

    /// Closes the books: Redis is back.
    pub fn end_fallback(&self) {
        let mut state = self.state.lock();
        state.fallback = None;
        for held in state.held.values_mut() {
            held.stand_in = None;
        }
    }
}

impl State {
    /// Opens the books for this absence, if they are not.
    fn open_alone(&mut self, part: &Options, generation: u64, now: Instant) {
        let known = self.fallback.as_ref().map(|fallback| fallback.generation);
        if known != Some(generation) {
            let mut fallback = Fallback {
                generation,
                part: part.clone(),
                hosts: HashMap::new(),
            };
            fallback.count_ours(&mut self.hosts, &mut self.held, now);
            self.fallback = Some(fallback);
        }
    }

    fn ask_alone(&mut self, domain: &Domain, lane: Lane, now: Instant) -> Result<Slot, Hold> {
        self.lasting_hold(domain, now)?;
        self.books_alone().ask(domain, lane, now)
    }

    fn again_alone(&mut self, slot: &Slot, now: Instant) -> Result<(), Hold> {
        self.lasting_hold(&slot.domain, now)?;
        let held = self.held.get_mut(&slot.token);
        let stand_in = held.and_then(|held| held.stand_in.take());
        let books = self.books_alone();
        let (stand_in, taken) = match stand_in {
            Some(mut own) => {
                let taken = books.host(&slot.domain, now).again(&mut own, now);
                (Some(own), taken)
            }
            // Redis gave it, and here there was no room for it.
            None => match books.ask(&slot.domain, slot.lane, now) {
                Ok(own) => (Some(own), Ok(())),
                Err(hold) => (None, Err(hold)),
            },
        };
        if let Some(held) = self.held.get_mut(&slot.token) {
            held.stand_in = stand_in;
        }
        taken
    }

    /// What the host or its breaker said while Redis was there still holds.
    fn lasting_hold(&self, domain: &Domain, now: Instant) -> Result<(), Hold> {
        let hold = self.hosts.get(domain).and_then(|k| k.lasting_hold(now));
        hold.map_or(Ok(()), Err)
    }

    fn books_alone(&mut self) -> &mut Fallback {
        let fallback = self.fallback.as_mut();
        fallback.expect("because whoever asks has opened them under the same lock")
    }
}

impl Fallback {
    /// Counts our own starts, then the slots that are out. Where the part is less than that, the
    /// books are full and the rest need not be in them.
    fn count_ours(
        &mut self,
        hosts: &mut HashMap<Domain, Known>,
        held: &mut HashMap<u64, Held>,
        now: Instant,
    ) {
        for (domain, known) in hosts {
            known.expire(now);
            let is_over = |start: &&Start| {
                let held = held.get(&start.name.token);
                held.is_none_or(|held| held.latest != start.name)
            };
            for start in known.starts.iter().filter(is_over) {
                if let Ok(slot) = self.ask(domain, start.lane, start.at) {
                    self.release(&slot, Outcome::Cancelled, start.at);
                }
            }
        }
        for held in held.values_mut() {
            held.stand_in = self.ask(&held.domain, held.lane, now).ok();
        }
    }

    fn ask(&mut self, domain: &Domain, lane: Lane, now: Instant) -> Result<Slot, Hold> {
        let started = self.host(domain, now).ask(lane, now)?;
        Ok(Slot {
            domain: domain.clone(),
            lane,
            started: started.at,
            probe: started.probe,
            token: 0,
        })
    }

    fn host(&mut self, domain: &Domain, now: Instant) -> &mut Host {
        let hosts = self.hosts.entry(domain.clone());
        let limits = self.part.limits_of(domain);
        hosts.or_insert_with(|| Host::new(limits, self.part.breaker, now))
    }

    pub fn release(&mut self, stand_in: &Slot, outcome: Outcome, now: Instant) {
        if let Some(host) = self.hosts.get_mut(&stand_in.domain) {
            host.release(stand_in, outcome, now);
        }
    }

    pub fn is_throttled(&mut self, domain: &Domain, lane: Lane, now: Instant) -> bool {
        let host = self.hosts.get_mut(domain);
        host.is_some_and(|host| host.look(lane, now).is_err())
    }

    pub fn failures(&mut self, domain: &Domain, now: Instant) -> u32 {
        let host = self.hosts.get_mut(domain);
        host.map_or(0, |host| host.failures(now))
    }

    pub fn status(&mut self, domain: &Domain, now: Instant) -> Option<HostStatus> {
        let host = self.hosts.get_mut(domain);
        host.map(|host| host.status(domain, now))
    }

    pub fn is_blank(&mut self, domain: &Domain, now: Instant) -> bool {
        let host = self.hosts.get_mut(domain);
        host.is_none_or(|host| host.is_blank(now))
    }

    pub fn forget(&mut self, domain: &Domain) {
        self.hosts.remove(domain);
    }
}
