//! Identifiers about which relay and git may not agree yet.

use std::collections::BTreeSet;

use grip_types::Identifier;
use parking_lot::Mutex;

/// Identifiers that could not be settled, for the next sweep. Nothing of it is on disk: the start
/// settles every identifier. Bounded by the identifiers that something is hosted or held for.
#[derive(Default)]
pub(crate) struct Unsettled {
    identifiers: Mutex<BTreeSet<Identifier>>,
}

impl Unsettled {
    pub(crate) fn add(&self, identifier: &Identifier) {
        self.identifiers.lock().insert(identifier.clone());
    }

    pub(crate) fn remove(&self, identifier: &Identifier) {
        self.identifiers.lock().remove(identifier);
    }

    pub(crate) fn contains(&self, identifier: &Identifier) -> bool {
        self.identifiers.lock().contains(identifier)
    }

    /// The first `count` after `after`, from the beginning again at the end.
    pub(crate) fn next(&self, count: usize) -> Vec<Identifier> {
        self.identifiers
            .lock()
            .iter()
            .take(count)
            .cloned()
            .collect()
    }
}
