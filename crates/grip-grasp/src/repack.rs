//! Repacking of object stores after pushes and fetches.

use std::{collections::BTreeSet, sync::Arc};

use grip_git::RepackError;
use grip_types::Identifier;
use parking_lot::Mutex;

use crate::grasp::Core;

/// How many identifiers are remembered; one beyond it waits for its next new objects to be noticed.
const MAX_PENDING: usize = 10_000;
/// How many are repacked in one sweep, one after the other, so that pushes keep the disk.
const PER_SWEEP: usize = 8;

/// The identifiers that got new objects.
#[derive(Default)]
pub(crate) struct PendingRepacks {
    identifiers: Mutex<BTreeSet<Identifier>>,
}

impl PendingRepacks {
    pub(crate) fn add(&self, identifier: &Identifier) {
        let mut identifiers = self.identifiers.lock();
        if identifiers.len() < MAX_PENDING {
            identifiers.insert(identifier.clone());
        }
    }

    fn take(&self) -> Option<Identifier> {
        self.identifiers.lock().pop_first()
    }
}

impl Core {
    /// Repacks some identifiers that got new packs. Readers are not disturbed.
    pub(crate) async fn repack(self: &Arc<Self>) -> usize {
        let mut repacked = 0;
        for _ in 0..PER_SWEEP {
            let Some(identifier) = self.pending_repacks.take() else {
                break;
            };
            match self.repositories.repack(&identifier).await {
                Ok(_) => repacked += 1,
                Err(RepackError::Busy(_)) => self.pending_repacks.add(&identifier),
                Err(error) => {
                    tracing::warn!(%identifier, error = &error as &dyn std::error::Error, "failed to repack objects");
                }
            }
        }
        repacked
    }
}
