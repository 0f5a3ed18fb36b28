//! How many pushes one repository takes at once.

use std::{collections::HashMap, sync::Arc};

use grip_nostr::RepoAddr;
use parking_lot::Mutex;

/// Pushes to one repository at once, from the first command to the last report. Beyond it a push
/// is refused: each may hold a pack in quarantine and a process of git.
const MAX_PER_REPOSITORY: usize = 8;

/// The pushes under way. Bounded by the connections that carry them.
#[derive(Clone, Default)]
pub(crate) struct Pushes {
    counts: Arc<Mutex<HashMap<RepoAddr, usize>>>,
}

/// The right to push to one repository, given back on drop.
#[must_use = "the place is free again as soon as it is dropped"]
pub(super) struct Place {
    counts: Arc<Mutex<HashMap<RepoAddr, usize>>>,
    addr: RepoAddr,
}

impl Pushes {
    pub(super) fn enter(&self, addr: &RepoAddr) -> Option<Place> {
        let mut counts = self.counts.lock();
        let count = counts.entry(addr.clone()).or_default();
        if *count == MAX_PER_REPOSITORY {
            return None;
        }
        *count += 1;
        Some(Place {
            counts: Arc::clone(&self.counts),
            addr: addr.clone(),
        })
    }

    /// How many pushes are under way.
    pub(crate) fn len(&self) -> usize {
        self.counts.lock().values().sum()
    }
}

impl Drop for Place {
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
    fn places_are_bounded_and_given_back() {
        let pushes = Pushes::default();
        let identifier = Identifier::parse("x").unwrap();
        let addr = RepoAddr::new(Keys::generate().public_key(), identifier);
        let places: Vec<_> = (0..MAX_PER_REPOSITORY)
            .map(|_| pushes.enter(&addr))
            .collect();
        assert!(places.iter().all(Option::is_some) && pushes.enter(&addr).is_none());
        drop(places);
        assert!(pushes.counts.lock().is_empty() && pushes.enter(&addr).is_some());
    }
}
