//! Server side of NIP-77: set reconciliation over a sealed snapshot.

mod validate;

use std::{collections::HashMap, sync::Arc};

use grip_store::{Item, StoreError};
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use tokio::time::Instant;

use crate::{Limits, Stats, quota::Held};

/// Why an exchange ended; the text of its `NEG-ERR`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("blocked: this query is too big")]
    TooBig,
    #[error("blocked: this query is too big; narrow it by ids, authors, a tag, since or until")]
    TooLong,
    #[error("rate-limited: too many exchanges are open here; try again later")]
    Busy,
    #[error("invalid: {0}")]
    Malformed(&'static str),
    #[error("closed: no exchange with this id is open")]
    Unknown,
    #[error("error: the events could not be read")]
    Store(#[from] StoreError),
    #[error("error: the message could not be worked on")]
    Failed,
}

/// The events of an exchange that is being opened.
pub(crate) struct Collected {
    storage: NegentropyStorageVector,
    records: Held,
    count: usize,
}

impl Collected {
    pub(crate) fn new(records: Held) -> Self {
        Self {
            storage: NegentropyStorageVector::new(),
            records,
            count: 0,
        }
    }

    pub(crate) fn push(&mut self, (created_at, id): Item) {
        self.storage
            .insert(created_at, Id::from_byte_array(id))
            .expect("not sealed yet");
        self.count += 1;
    }

    /// Takes quota for what was collected so far.
    pub(crate) fn hold(&mut self, limits: &Limits) -> Result<(), Failure> {
        if self.count > limits.reconciliation_records {
            return Err(Failure::TooBig);
        }
        // An empty set takes quota too, so that it bounds their number.
        if !self.records.resize(self.count.max(1)) {
            return Err(Failure::Busy);
        }
        Ok(())
    }

    /// Long work: not for the runtime's threads.
    pub(crate) fn seal(mut self) -> Snapshot {
        self.storage.seal().expect("not sealed yet");
        Snapshot {
            storage: self.storage,
            _records: self.records,
        }
    }
}

/// The events of one exchange as they were when it was opened.
pub(crate) struct Snapshot {
    storage: NegentropyStorageVector,
    _records: Held,
}

impl Snapshot {
    /// Answers one message of the client. Long work as well.
    pub(crate) fn answer(&self, message: &[u8], frame_bytes: usize) -> Result<Vec<u8>, Failure> {
        validate::check(message).map_err(Failure::Malformed)?;
        let frame = frame_bytes as u64;
        let mut side = Negentropy::borrowed(&self.storage, frame).map_err(|_| Failure::Failed)?;
        side.reconcile(message)
            .map_err(|_| Failure::Malformed("the message of the exchange is malformed"))
    }
}

/// The open exchanges of one connection.
pub(crate) struct Exchanges {
    open: HashMap<String, Exchange>,
    stats: Arc<Stats>,
}

struct Exchange {
    snapshot: Arc<Snapshot>,
    used: Instant,
}

impl Exchanges {
    pub(crate) fn new(stats: Arc<Stats>) -> Self {
        Self {
            open: HashMap::new(),
            stats,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn insert(&mut self, sub: String, snapshot: Arc<Snapshot>) {
        let used = Instant::now();
        if self.open.insert(sub, Exchange { snapshot, used }).is_none() {
            self.stats.reconciliations.add(1);
        }
    }

    pub(crate) fn remove(&mut self, sub: &str) {
        if self.open.remove(sub).is_some() {
            self.stats.reconciliations.sub(1);
        }
    }

    pub(crate) fn touch(&mut self, sub: &str) -> Result<Arc<Snapshot>, Failure> {
        let exchange = self.open.get_mut(sub).ok_or(Failure::Unknown)?;
        exchange.used = Instant::now();
        Ok(Arc::clone(&exchange.snapshot))
    }

    /// When the next exchange has rested for too long.
    pub(crate) fn next_idle(&self, limits: &Limits) -> Option<Instant> {
        let used = self.open.values().map(|exchange| exchange.used).min();
        used.map(|used| used + limits.reconciliation_idle)
    }

    /// Closes those that have, and names them.
    pub(crate) fn close_idle(&mut self, limits: &Limits) -> Vec<String> {
        let now = Instant::now();
        let rested = |exchange: &Exchange| exchange.used + limits.reconciliation_idle <= now;
        let idle: Vec<String> = self
            .open
            .iter()
            .filter(|(_, exchange)| rested(exchange))
            .map(|(sub, _)| sub.clone())
            .collect();
        idle.iter().for_each(|sub| self.remove(sub));
        idle
    }
}

impl Drop for Exchanges {
    fn drop(&mut self) {
        self.stats.reconciliations.sub(self.open.len() as u64);
    }
}

#[cfg(test)]
mod tests;
