//! The limit of concurrent pushes to one repository.

use std::{collections::HashMap, sync::Arc};

use grip_nostr::RepoAddr;
use parking_lot::Mutex;

/// Pushes to one repository at once, from the first command to the last report. Beyond it a push
/// is refused: each may hold a pack in quarantine and a process of git.
const MAX_PER_REPOSITORY: usize = 8;

/// The pushes under way. Bounded by the connections that carry them.
#[derive(Clone, Default)]
pub(crate) struct PushLimit {
    counts: Arc<Mutex<HashMap<RepoAddr, usize>>>,
}

/// The right to push to one repository, given back on drop.
#[must_use = "the push ends its count as soon as the permit is dropped"]
pub(super) struct PushPermit {
    counts: Arc<Mutex<HashMap<RepoAddr, usize>>>,
    addr: RepoAddr,
}

impl PushLimit {
    pub(super) fn try_acquire(&self, addr: &RepoAddr) -> Option<PushPermit> {
        let mut counts = self.counts.lock();
        let count = counts.entry(addr.clone()).or_default();
        if *count == MAX_PER_REPOSITORY {
            return None;
        }
        *count += 1;
        Some(PushPermit {
            counts: Arc::clone(&self.counts),
            addr: addr.clone(),
        })
    }

    /// How many pushes are under way.
    pub(crate) fn len(&self) -> usize {
        self.counts.lock().values().sum()
    }
}

impl Drop for PushPermit {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.addr) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.addr);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use grip_types::Identifier;
    use nostr::prelude::Keys;

    use super::*;

    #[test]
    fn permits_are_bounded_and_given_back() {
        let pushes = PushLimit::default();
        let identifier = Identifier::parse("x").unwrap();
        let addr = RepoAddr::new(Keys::generate().public_key(), identifier);
        let permits: Vec<_> = (0..MAX_PER_REPOSITORY)
            .map(|_| pushes.try_acquire(&addr))
            .collect();
        assert!(permits.iter().all(Option::is_some) && pushes.try_acquire(&addr).is_none());
        drop(permits);
        assert!(pushes.counts.lock().is_empty() && pushes.try_acquire(&addr).is_some());
    }
}
