//! Readiness of the node, part by part.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

/// What is still missing before requests can be served; shared by all who know a part of it.
///
/// The parts are a handful of names written in the source, so the map is bounded.
#[derive(Clone, Default)]
pub struct Readiness {
    missing: Arc<Mutex<BTreeMap<&'static str, String>>>,
    degraded: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl Readiness {
    /// A node of which nothing is missing.
    pub fn ready() -> Self {
        Self::default()
    }

    /// Says that `part` is missing, and why or how far it is.
    pub fn lacks(&self, part: &'static str, reason: impl Into<String>) {
        self.missing.lock().insert(part, reason.into());
    }

    /// Says that `part` is there.
    pub fn has(&self, part: &'static str) {
        self.missing.lock().remove(part);
    }

    pub fn is_ready(&self) -> bool {
        self.missing.lock().is_empty()
    }

    /// What is missing, part by part.
    pub fn missing(&self) -> BTreeMap<&'static str, String> {
        self.missing.lock().clone()
    }

    /// Says that `part` works, but not as it was meant to; `None` says that it does again.
    pub fn degrade(&self, part: &'static str, reason: Option<String>) {
        let mut degraded = self.degraded.lock();
        match reason {
            Some(reason) => degraded.insert(part, reason),
            None => degraded.remove(part),
        };
    }

    /// What works, but not as it was meant to, part by part.
    pub fn degraded(&self) -> BTreeMap<&'static str, String> {
        self.degraded.lock().clone()
    }

    /// Says that the node is on its way down: intake has stopped for good.
    pub fn drain(&self) {
        self.lacks(DRAINING, "the node is shutting down: intake has stopped");
    }

    pub fn is_draining(&self) -> bool {
        self.missing.lock().contains_key(DRAINING)
    }
}

const DRAINING: &str = "draining";
