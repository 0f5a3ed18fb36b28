//! The accounts of networks of addresses: many names of one machine are one host to those who run
//! it.
//!
//! Whose share is used up: names cost nothing, and anybody's can be made to lead anywhere. So all
//! names of a network share one window, looser than that of a host, and half of it is for hosts that
//! have answered well before: names made up to point at a machine leave those to it that it serves.
//! Hosts that the operator named are counted and never refused.
//!
//! The table has a fixed size. Networks are told apart by a keyed hash alone; two that fall together
//! count as one. It is kept by each instance for itself.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
};

use grip_types::NetworkPrefixes;
use tokio::time::Instant;

use crate::{Accounts, Limits, Options, hosts::REQUEST_TAKES};

/// Networks that are told apart.
const ACCOUNTS: usize = 16_384;

pub struct Networks {
    limits: Limits,
    /// What names that never answered well may use.
    unproven: Limits,
    prefixes: NetworkPrefixes,
    hasher: RandomState,
    accounts: Box<[Account]>,
    swept_at: Option<Instant>,
}

/// What one network was asked.
#[derive(Clone, Debug, Default)]
struct Account {
    starts: VecDeque<Instant>,
    in_flight: u32,
}

/// A request to the addresses that a name leads to.
#[derive(Clone, Debug)]
pub struct NetworkRequest {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) trust: Trust,
}

/// How a host is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Unproven,
    /// It has answered well before.
    Proven,
    /// The operator named it.
    Configured,
}

/// The networks that one request counts for.
#[derive(Debug)]
pub struct NetworkGrant {
    places: Vec<usize>,
    at: Instant,
}

/// How the request to a network ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkOutcome {
    Done,
    /// No request was made.
    Unused,
}

impl Networks {
    pub(crate) fn new(options: &Options) -> Self {
        let Options {
            network, limits, ..
        } = options;
        let at_least = |of: Limits, part: u32| Limits {
            in_flight: (of.in_flight / part).max(limits.in_flight),
            per_window: (of.per_window / part).max(limits.per_window),
            window: of.window,
        };
        Self {
            limits: at_least(*network, 1),
            unproven: at_least(*network, 2),
            prefixes: options.prefixes,
            hasher: RandomState::new(),
            accounts: vec![Account::default(); ACCOUNTS].into(),
            swept_at: None,
        }
    }

    /// The accounts of some addresses, each once.
    fn places(&self, addresses: &[IpAddr]) -> Vec<usize> {
        let place = |address: &IpAddr| {
            let network = self.prefixes.network(*address);
            let hash = self.hasher.hash_one(network) % ACCOUNTS as u64;
            usize::try_from(hash).unwrap_or_default()
        };
        let mut places: Vec<usize> = addresses.iter().map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Gives back the memory of logs that nobody looks at any more.
    fn sweep(&mut self, now: Instant) {
        let window = self.limits.window;
        let age = self.swept_at.map(|at| now.saturating_duration_since(at));
        if age.is_none_or(|age| age >= window) {
            self.swept_at = Some(now);
            for account in &mut self.accounts {
                account.expire(self.limits, now);
            }
        }
    }
}

impl Accounts for Networks {
    type Key = NetworkRequest;
    type Grant = NetworkGrant;
    type Outcome = NetworkOutcome;
    /// When asking again may help.
    type Refusal = Instant;

    fn take(&mut self, request: &NetworkRequest, now: Instant) -> Result<NetworkGrant, Instant> {
        self.sweep(now);
        let places = self.places(&request.addresses);
        let limits = match request.trust {
            Trust::Unproven => Some(self.unproven),
            Trust::Proven => Some(self.limits),
            Trust::Configured => None,
        };
        for place in &places {
            self.accounts[*place].expire(self.limits, now);
            if let Some(limits) = limits {
                self.accounts[*place].check(limits, now)?;
            }
        }
        for place in &places {
            self.accounts[*place].start(self.limits, now);
        }
        Ok(NetworkGrant { places, at: now })
    }

    fn settle(&mut self, grant: &NetworkGrant, outcome: NetworkOutcome, _: Instant) {
        for place in &grant.places {
            let account = &mut self.accounts[*place];
            account.in_flight = account.in_flight.saturating_sub(1);
            if outcome == NetworkOutcome::Unused {
                let start = account.starts.iter().rposition(|at| *at == grant.at);
                start.and_then(|start| account.starts.remove(start));
            }
        }
    }

    fn dropped(_: &NetworkGrant, _: Instant) -> NetworkOutcome {
        NetworkOutcome::Done
    }
}

impl Account {
    fn expire(&mut self, limits: Limits, now: Instant) {
        let is_over = |at: &Instant| now.saturating_duration_since(*at) >= limits.counted_for();
        while self.starts.front().is_some_and(is_over) {
            self.starts.pop_front();
        }
        if self.starts.is_empty() && self.starts.capacity() > 0 {
            self.starts = VecDeque::new();
        }
    }

    fn check(&self, limits: Limits, now: Instant) -> Result<(), Instant> {
        if self.starts.len() >= limits.starts() as usize {
            let oldest = self.starts.len() - limits.starts() as usize;
            return Err(self.starts[oldest] + limits.counted_for());
        }
        if self.in_flight >= limits.slots() {
            return Err(now + REQUEST_TAKES);
        }
        Ok(())
    }

    /// Counts a request. Of those that are never refused more make no difference than would fill
    /// the window.
    fn start(&mut self, limits: Limits, now: Instant) {
        self.in_flight += 1;
        if self.starts.len() >= limits.starts() as usize {
            self.starts.pop_front();
        }
        self.starts.push_back(now);
    }
}

#[cfg(test)]
mod tests;
