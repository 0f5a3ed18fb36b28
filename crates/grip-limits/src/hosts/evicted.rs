//! Hosts that left the table to make room, as far as they must not be forgotten.
//!
//! Invariant: a host that comes back was asked no more often than the table believes. The starts of
//! those that left are kept in logs that several of them share, chosen by a keyed hash; one that
//! comes back counts the whole log as its own. Memory does not grow with the number of names.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use grip_types::Domain;
use tokio::time::Instant;

use super::host::{Hold, Host, Start};
use crate::{Reason, Why};

/// Logs of starts.
const LOGS: usize = 16_384;
/// Hosts remembered that are to be left alone. Beyond, those whose time ends first are forgotten:
/// each of them may be asked once, and says so again.
const MAX_CLOSED: usize = 100_000;

/// What is left of a host.
pub(super) struct Departure {
    pub(super) starts: VecDeque<Start>,
    pub(super) closed: Closed,
}

/// How long a host is to be left alone, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) advised: Option<(Instant, Why)>,
    pub(super) open_until: Option<Instant>,
}

impl Closed {
    /// The later of both ends, if one is to come.
    fn hold(self, now: Instant) -> Option<Hold> {
        let advised = self
            .advised
            .map(|(until, _)| Hold::new(Reason::Advised, until));
        let open = self
            .open_until
            .map(|until| Hold::new(Reason::BreakerOpen, until));
        let holds = [advised, open].into_iter().flatten();
        holds
            .filter(|hold| hold.retry_at > now)
            .max_by_key(|hold| hold.retry_at)
    }
}

pub(super) struct Departed {
    hasher: RandomState,
    logs: Box<[VecDeque<Start>]>,
    closed: HashMap<u64, Closed>,
}

impl Default for Departed {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            logs: vec![VecDeque::new(); LOGS].into(),
            closed: HashMap::new(),
        }
    }
}

impl Departed {
    /// Hosts that are remembered because they are to be left alone.
    pub(super) fn closed_len(&self) -> usize {
        self.closed.len()
    }

    /// Why a host that left may not be asked.
    pub(super) fn hold(&self, domain: &Domain, now: Instant) -> Option<Hold> {
        self.closed.get(&self.key(domain))?.hold(now)
    }

    /// Keeps what must be kept of a host. Starts count for `counted_for`, and more than `most` of
    /// them make no difference.
    pub(super) fn add(
        &mut self,
        domain: &Domain,
        departure: Departure,
        counted_for: Duration,
        most: usize,
        now: Instant,
    ) {
        let key = self.key(domain);
        if departure.closed != Closed::default() {
            self.close(key, departure.closed, now);
        }
        if departure.starts.is_empty() {
            return;
        }
        let log = self.log(key);
        log.extend(departure.starts);
        log.make_contiguous().sort_by_key(|start| start.at);
        trim(log, counted_for, now);
        let beyond = log.len().saturating_sub(most);
        log.drain(..beyond);
    }

    /// Gives a host that comes back what is known of it.
    pub(super) fn restore(
        &mut self,
        domain: &Domain,
        host: &mut Host,
        counts_starts: bool,
        now: Instant,
    ) {
        let key = self.key(domain);
        if let Some(closed) = self.closed.remove(&key) {
            host.reopen(closed, now);
        }
        if counts_starts {
            let counted_for = host.limits.counted_for();
            let log = self.log(key);
            trim(log, counted_for, now);
            host.count_former(log);
        }
    }

    fn close(&mut self, key: u64, closed: Closed, now: Instant) {
        if self.closed.len() >= MAX_CLOSED {
            self.closed.retain(|_, closed| closed.hold(now).is_some());
        }
        if self.closed.len() >= MAX_CLOSED {
            self.forget_soonest(now);
        }
        self.closed.insert(key, closed);
    }

    /// Forgets an eighth, so that it need not be done for each.
    fn forget_soonest(&mut self, now: Instant) {
        let ends = self.closed.iter();
        let mut ends: Vec<(Option<Instant>, u64)> = ends
            .map(|(key, closed)| (closed.hold(now).map(|hold| hold.retry_at), *key))
            .collect();
        let count = MAX_CLOSED / 8;
        ends.select_nth_unstable(count);
        for (_, key) in &ends[..count] {
            self.closed.remove(key);
        }
    }

    fn log(&mut self, key: u64) -> &mut VecDeque<Start> {
        let place = usize::try_from(key % LOGS as u64).unwrap_or_default();
        &mut self.logs[place]
    }

    fn key(&self, domain: &Domain) -> u64 {
        self.hasher.hash_one(domain)
    }
}

fn trim(log: &mut VecDeque<Start>, counted_for: Duration, now: Instant) {
    while log
        .front()
        .is_some_and(|start| now.saturating_duration_since(start.at) >= counted_for)
    {
        log.pop_front();
    }
    if log.is_empty() {
        *log = VecDeque::new();
    }
}
