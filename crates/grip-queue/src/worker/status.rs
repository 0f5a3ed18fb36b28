//! Counters of a worker, for pages and metrics.

use serde::Serialize;

use super::Shared;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerStatus {
    pub kind: String,
    pub running: usize,
    pub at_once: usize,
    pub claimed_total: u64,
    pub done_total: u64,
    pub postponed_total: u64,
    /// Will be tried again.
    pub failed_total: u64,
    /// Failed for good.
    pub died_total: u64,
    /// Their lease went to somebody else, or could not be renewed in time.
    pub lost_total: u64,
    pub panicked_total: u64,
    /// For how long the database has not answered.
    pub away_ms: Option<u64>,
}

impl Shared {
    /// Counts something.
    pub(super) fn count(&self, count: impl FnOnce(&mut WorkerStatus)) {
        count(&mut self.counts.lock());
    }

    pub(super) fn status(&self) -> WorkerStatus {
        WorkerStatus {
            kind: self.kind.clone(),
            running: self.held.len(),
            at_once: self.options.at_once,
            away_ms: self.outage.lasts().map(|lasts| lasts.as_millis() as u64),
            ..self.counts.lock().clone()
        }
    }
}
