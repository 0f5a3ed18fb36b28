//! The ledger of one process.
//!
//! One lock around all hosts: what happens under it takes well below a microsecond, and requests
//! to remote hosts are rare against that. Sweeps of idle hosts are the exception and are spaced.

use std::{collections::HashMap, time::Duration};

use grip_types::Domain;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    BackendStatus, HostStatus, Lane, Options, Reason, Refused,
    host::{Hold, Host, Started},
    ledger::{Asked, Bell, Ledger, Outcome, Slot},
};

/// Least time between two looks for hosts to forget while the map is full.
const SWEEP_SPACING: Duration = Duration::from_secs(5);

pub(crate) struct Memory {
    options: Options,
    bell: Bell,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    hosts: HashMap<Domain, Host>,
    swept_at: Option<Instant>,
}

impl Memory {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            bell: Bell::default(),
            books: Mutex::default(),
        }
    }

    /// Takes a slot and a start at `now`.
    pub fn take(&self, domain: &Domain, lane: Lane, now: Instant) -> Result<Slot, Refused> {
        let mut books = self.books.lock();
        let taken = books
            .host(domain, &self.options, now)
            .and_then(|host| host.ask(lane, now));
        drop(books);
        let Started { at, probe } = taken.map_err(|hold| refused(domain, hold))?;
        Ok(Slot {
            domain: domain.clone(),
            lane,
            started: at,
            probe,
            token: 0,
        })
    }

    /// Takes one more start under `slot` at `now`.
    pub fn take_again(&self, slot: &mut Slot, now: Instant) -> Result<(), Refused> {
        let mut books = self.books.lock();
        let taken = books
            .host(&slot.domain, &self.options, now)
            .and_then(|host| host.again(slot, now));
        drop(books);
        taken.map_err(|hold| refused(&slot.domain, hold))
    }
}

impl Ledger for Memory {
    fn acquire<'a>(&'a self, domain: &'a Domain, lane: Lane) -> Asked<'a, Result<Slot, Refused>> {
        Box::pin(async move { self.take(domain, lane, Instant::now()) })
    }

    fn again<'a>(&'a self, slot: &'a mut Slot) -> Asked<'a, Result<(), Refused>> {
        Box::pin(async move { self.take_again(slot, Instant::now()) })
    }

    fn release(&self, slot: Slot, outcome: Outcome) {
        let now = Instant::now();
        let mut books = self.books.lock();
        if let Some(host) = books.hosts.get_mut(&slot.domain) {
            host.release(&slot, outcome, now);
        }
        drop(books);
        self.bell.ring(&slot.domain);
    }

    fn is_throttled(&self, domain: &Domain, lane: Lane) -> bool {
        let now = Instant::now();
        let mut books = self.books.lock();
        let host = books.hosts.get_mut(domain);
        host.is_some_and(|host| host.look(lane, now).is_err())
    }

    fn failures(&self, domain: &Domain) -> u32 {
        let now = Instant::now();
        let mut books = self.books.lock();
        let host = books.hosts.get_mut(domain);
        host.map_or(0, |host| host.failures(now))
    }

    fn bell(&self) -> &Bell {
        &self.bell
    }

    fn hosts(&self) -> Vec<HostStatus> {
        let now = Instant::now();
        let mut books = self.books.lock();
        // Does not count as a look for room: who watches the list must not put that off.
        books.forget(self.options.forget_after, now);
        let hosts = books.hosts.iter_mut();
        let mut hosts: Vec<_> = hosts
            .map(|(domain, host)| host.status(domain, now))
            .collect();
        drop(books);
        hosts.sort_by(|a, b| a.domain.cmp(&b.domain));
        hosts
    }

    fn backend(&self) -> BackendStatus {
        BackendStatus::Memory
    }
}

impl Books {
    /// The books of `domain`, opened if need be and if there is room.
    fn host(
        &mut self,
        domain: &Domain,
        options: &Options,
        now: Instant,
    ) -> Result<&mut Host, Hold> {
        if !self.hosts.contains_key(domain) {
            self.make_room(options, now)?;
            let host = Host::new(options.limits_of(domain), options.breaker, now);
            self.hosts.insert(domain.clone(), host);
        }
        let host = self.hosts.get_mut(domain);
        Ok(host.expect("because it was there or has just been inserted"))
    }

    /// Forgets idle hosts now and then; at the bound also those that are only just idle.
    fn make_room(&mut self, options: &Options, now: Instant) -> Result<(), Hold> {
        let is_full = self.hosts.len() >= options.max_domains;
        let (spacing, idle) = match is_full {
            true => (SWEEP_SPACING, Duration::ZERO),
            false => (options.forget_after / 2, options.forget_after),
        };
        if self.is_due(spacing, now) {
            self.swept_at = Some(now);
            self.forget(idle, now);
        }
        if self.hosts.len() < options.max_domains {
            return Ok(());
        }
        let next_sweep = self.swept_at.unwrap_or(now) + SWEEP_SPACING;
        Err(Hold::new(Reason::TooManyHosts, next_sweep))
    }

    fn is_due(&self, spacing: Duration, now: Instant) -> bool {
        self.swept_at
            .is_none_or(|at| now.saturating_duration_since(at) >= spacing)
    }

    /// Forgets hosts that were idle for `idle` and owe nothing.
    fn forget(&mut self, idle: Duration, now: Instant) {
        self.hosts
            .retain(|_, host| host.idle_for(now) < idle || !host.is_blank(now));
    }
}

fn refused(domain: &Domain, hold: Hold) -> Refused {
    Refused {
        domain: domain.clone(),
        reason: hold.reason,
        retry_at: hold.retry_at,
    }
}

#[cfg(test)]
mod tests;
