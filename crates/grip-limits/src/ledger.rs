//! The seam between the handles and whoever keeps the books.
//!
//! Invariants every ledger keeps:
//! - Asking and taking is one step: two callers never get the same slot or the same start.
//! - A slot that was given out comes back exactly once, through [`Ledger::release`].
//! - `release` waits for nothing, so that it can run while a permit is dropped, also during a
//!   panic and outside a runtime. A ledger that has to tell a server queues it (bounded) and
//!   lets its leases end by themselves where the queue is full.
//! - Whoever might be able to go sooner than it was told is told so by the [`Bell`].

use std::{
    collections::{HashSet, VecDeque},
    pin::Pin,
    time::Duration,
};

use grip_types::Domain;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{Advice, BackendStatus, HostStatus, Lane, Refused, SharedRedis, Verdict};

/// What an asynchronous method of a ledger answers with; boxed, so that the trait is object safe.
pub(crate) type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps count of what each host was asked.
pub(crate) trait Ledger: Send + Sync + 'static {
    /// Takes a slot and a start, or says why not and when to ask again; never waits for capacity.
    ///
    /// Cancel safe: a future that is dropped before its answer leaves no slot behind for good.
    fn acquire<'a>(&'a self, domain: &'a Domain, lane: Lane) -> Asked<'a, Result<Slot, Refused>>;

    /// Takes one more start under a slot that is held. A refusal leaves the slot as it was.
    fn again<'a>(&'a self, slot: &'a mut Slot) -> Asked<'a, Result<(), Refused>>;

    /// Takes the slot back. Never blocks, never waits, never panics.
    fn release(&self, slot: Slot, outcome: Outcome);

    /// Whether a request would be refused, by what this process knows; without I/O.
    fn is_throttled(&self, domain: &Domain, lane: Lane) -> bool;

    /// Failures within the breaker's window; without I/O.
    fn failures(&self, domain: &Domain) -> u32;

    /// Rung with the domain whenever a slot or start frees, or advice or the breaker changes.
    fn bell(&self) -> &Bell;

    fn hosts(&self) -> Vec<HostStatus>;

    fn backend(&self) -> BackendStatus;

    /// How long a queue may trust that only the [`Bell`] can change [`crate::Reason::InFlight`].
    ///
    /// None where every release happens in this process.
    fn recheck(&self) -> Option<Duration> {
        None
    }

    /// Where other books can be shared as well; none where every book is of this process alone.
    fn shared(&self) -> Option<SharedRedis> {
        None
    }
}

/// One slot of one host, as the ledger that gave it knows it. Not `Clone`: it comes back once.
#[derive(Debug)]
pub(crate) struct Slot {
    pub domain: Domain,
    pub lane: Lane,
    /// When the latest start under this slot was counted, by this process's clock.
    pub started: Instant,
    /// The round of the breaker that this request probes for.
    pub probe: Option<u64>,
    /// The ledger's own name for the slot; 0 where it needs none.
    pub token: u64,
}

/// How the use of a slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The permit was dropped: the start stays counted, the breaker learns nothing.
    Cancelled,
    /// No request was made since the latest start: it is given back too.
    Unused,
    /// The host answered, or failed to.
    Done {
        verdict: Verdict,
        advice: Option<Advice>,
    },
}

/// Tells queues which hosts are worth asking again.
///
/// Bounded: remembers the newest [`Bell::MEMORY`] rings. Whoever comes later than that learns
/// that it missed some and asks all of its hosts.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Number of rings so far.
    count: watch::Sender<u64>,
    rung: Mutex<Rung>,
}

#[derive(Debug, Default)]
struct Rung {
    total: u64,
    newest: VecDeque<Domain>,
}

/// What a [`Bell`] has to tell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// These rang.
    Rang(HashSet<Domain>),
    /// More rang than the bell remembers: any host may have.
    Missed,
}

impl Default for Bell {
    fn default() -> Self {
        Self {
            count: watch::Sender::new(0),
            rung: Mutex::default(),
        }
    }
}

impl Bell {
    const MEMORY: usize = 256;

    /// Tells that a request to `domain` may go sooner than thought.
    pub fn ring(&self, domain: &Domain) {
        let mut rung = self.rung.lock();
        rung.total += 1;
        if rung.newest.len() == Self::MEMORY {
            rung.newest.pop_front();
        }
        rung.newest.push_back(domain.clone());
        let total = rung.total;
        // Still locked, so that the count never goes back.
        self.count.send_replace(total);
    }

    /// Tells that any host may go, for example after the backend changed.
    pub fn ring_all(&self) {
        let mut rung = self.rung.lock();
        rung.total += Self::MEMORY as u64 + 1;
        rung.newest.clear();
        self.count.send_replace(rung.total);
    }

    /// Changes with every ring.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// The hosts that rang after ring number `seen`, and the number of the latest ring.
    pub fn since(&self, seen: u64) -> (Since, u64) {
        let rung = self.rung.lock();
        let missing = usize::try_from(rung.total.saturating_sub(seen)).unwrap_or(usize::MAX);
        if missing > rung.newest.len() {
            return (Since::Missed, rung.total);
        }
        let skip = rung.newest.len() - missing;
        let rang = rung.newest.iter().skip(skip).cloned().collect();
        (Since::Rang(rang), rung.total)
    }
}

#[cfg(test)]
mod tests;
