//! Counters of a worker, for pages and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::Shared;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

#[derive(Default)]
pub(super) struct Counters {
    claimed: AtomicU64,
    done: AtomicU64,
    postponed: AtomicU64,
    failed: AtomicU64,
    died: AtomicU64,
    lost: AtomicU64,
    panicked: AtomicU64,
}

macro_rules! count {
    ($($name:ident)+) => {$(
        pub(super) fn $name(&self) {
            self.$name.fetch_add(1, Ordering::Relaxed);
        }
    )+};
}

impl Counters {
    count! { done postponed failed died lost panicked }

    pub(super) fn claimed(&self, count: u64) {
        self.claimed.fetch_add(count, Ordering::Relaxed);
    }
}

impl Shared {
    pub(super) fn status(&self) -> WorkerStatus {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        WorkerStatus {
            kind: self.kind.clone(),
            running: self.held.len(),
            at_once: self.options.at_once,
            claimed_total: read(&counters.claimed),
            done_total: read(&counters.done),
            postponed_total: read(&counters.postponed),
            failed_total: read(&counters.failed),
            died_total: read(&counters.died),
            lost_total: read(&counters.lost),
            panicked_total: read(&counters.panicked),
            away_ms: self.outage.lasts().map(|lasts| lasts.as_millis() as u64),
        }
    }
}
