//! The handle that everything outbound holds.

use std::{fmt, sync::Arc, time::Duration};

use grip_types::Domain;
use serde::Serialize;
use tokio::sync::watch;

use crate::{
    BackendStatus, HostStatus, Options, Permit, Refused, SharedRedis,
    ledger::{Bell, Ledger},
    memory::Memory,
};

/// Gives out the right to ask hosts. Cheap to clone; clones share one ledger.
#[derive(Clone)]
pub struct Throttle {
    ledger: Arc<dyn Ledger>,
}

/// The kind of traffic a request belongs to.
///
/// Both kinds share one host's limits. While both use a host, each leaves one slot and a fifth of
/// the window to the other, so that neither can keep the other out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    Git,
    Api,
}

impl Throttle {
    /// A throttle whose books are in this process's memory.
    pub fn memory(options: Options) -> Self {
        Self::over(Arc::new(Memory::new(options)))
    }

    pub(crate) fn over(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger }
    }

    /// Takes the right to one request, or says why not; never waits for capacity.
    ///
    /// Cancel safe: a future that is dropped leaves no slot behind.
    pub async fn acquire(&self, domain: &Domain, lane: Lane) -> Result<Permit, Refused> {
        let slot = self.ledger.acquire(domain, lane).await?;
        Ok(Permit::new(slot, Arc::clone(&self.ledger)))
    }

    /// Whether a request would be refused, by what this process knows. The answer can be old by
    /// the time it is used: only [`Throttle::acquire`] decides.
    pub fn is_throttled(&self, domain: &Domain, lane: Lane) -> bool {
        self.ledger.is_throttled(domain, lane)
    }

    /// Recent failures of a host, to try healthy hosts first.
    pub fn failures(&self, domain: &Domain) -> u32 {
        self.ledger.failures(domain)
    }

    /// Changes when a slot or start frees, or when advice or a breaker changes. Not when a window
    /// frees by time alone.
    pub fn freed(&self) -> watch::Receiver<u64> {
        self.ledger.bell().subscribe()
    }

    /// The hosts in memory, at most as many as the settings allow, ordered by name.
    pub fn hosts(&self) -> Vec<HostStatus> {
        self.ledger.hosts()
    }

    pub fn backend(&self) -> BackendStatus {
        self.ledger.backend()
    }

    /// The Redis that instances share, for other books; none where this throttle uses none. It is
    /// looked for while it is away only as long as this throttle lives.
    pub fn shared(&self) -> Option<SharedRedis> {
        self.ledger.shared()
    }

    pub(crate) fn bell(&self) -> &Bell {
        self.ledger.bell()
    }

    pub(crate) fn recheck(&self) -> Option<Duration> {
        self.ledger.recheck()
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("backend", &self.backend())
            .finish_non_exhaustive()
    }
}

impl Lane {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Git => Self::Api,
            Self::Api => Self::Git,
        }
    }

    /// Place in a pair of counters.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Git => 0,
            Self::Api => 1,
        }
    }
}

#[cfg(test)]
mod tests;
