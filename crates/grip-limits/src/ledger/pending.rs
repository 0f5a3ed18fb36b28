//! Updates that Redis has not been told yet.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::SharedAccounts;

/// How many are kept for a Redis that is slow or disconnected. Beyond, the oldest is dropped: what
/// it would have freed comes back when its lease ends, and what it taught is older than the rest.
const BOUND: usize = 4_096;

/// How many are told in one step.
const AT_ONCE: usize = 128;

/// Bounded; the oldest first.
pub(super) struct PendingUpdates<A: SharedAccounts> {
    updates: Mutex<VecDeque<(A::Group, A::Update)>>,
}

/// Updates that are being told. Dropped without [`Batch::confirm`], they are pending again.
pub(super) struct Batch<'a, A: SharedAccounts> {
    pending: &'a PendingUpdates<A>,
    pub(super) group: A::Group,
    pub(super) updates: Vec<A::Update>,
}

impl<A: SharedAccounts> PendingUpdates<A> {
    pub(super) fn new() -> Self {
        Self {
            updates: Mutex::default(),
        }
    }

    pub(super) fn push(&self, group: A::Group, update: A::Update) {
        let mut updates = self.updates.lock();
        if updates.len() >= BOUND {
            updates.pop_front();
        }
        updates.push_back((group, update));
    }

    /// The oldest updates that belong together.
    pub(super) fn next(&self) -> Option<Batch<'_, A>> {
        let mut updates = self.updates.lock();
        let group = updates.front()?.0.clone();
        let mut found = Vec::new();
        updates.retain(|(of, update)| {
            let belongs = *of == group && found.len() < AT_ONCE;
            if belongs {
                found.push(update.clone());
            }
            !belongs
        });
        Some(Batch {
            pending: self,
            group,
            updates: found,
        })
    }
}

impl<A: SharedAccounts> Batch<'_, A> {
    pub(super) fn confirm(mut self) {
        self.updates.clear();
    }
}

impl<A: SharedAccounts> Drop for Batch<'_, A> {
    fn drop(&mut self) {
        let mut pending = self.pending.updates.lock();
        let free = BOUND.saturating_sub(pending.len());
        let skip = self.updates.len().saturating_sub(free);
        for update in self.updates.drain(..).skip(skip).rev() {
            pending.push_front((self.group.clone(), update));
        }
    }
}
