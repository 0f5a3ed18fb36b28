//! The turn of one key at one host.

use std::{collections::HashSet, fmt, hash::Hash, sync::Arc};

use grip_types::Domain;
use url::Url;

use super::Shared;
use crate::Permit;

/// The turn of one key at one host, with the permit for one request.
///
/// Dropping it puts the key back at the end of its queue; a permit that was not taken out is given
/// back unused.
#[must_use = "a turn that is dropped puts its key back into the queue"]
pub struct Turn<K: Clone + Eq + Hash> {
    pub(super) shared: Arc<Shared<K>>,
    pub(super) domain: Domain,
    pub(super) key: K,
    pub(super) tried: HashSet<Url>,
    pub(super) permit: Option<Permit>,
    pub(super) leaves: bool,
}

impl<K: Clone + Eq + Hash> Turn<K> {
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    pub fn key(&self) -> &K {
        &self.key
    }

    /// The URLs of this host that the key has tried, as of the beginning of the turn.
    pub fn tried(&self) -> &HashSet<Url> {
        &self.tried
    }

    /// The permit of this turn; given out once.
    pub fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }

    /// Remembers that `url` was tried; the key goes to the end of the queue for the next round.
    pub fn tried_url(mut self, url: Url) {
        self.tried.insert(url);
    }

    /// The key leaves the queue of this host.
    pub fn done(mut self) {
        self.leaves = true;
    }
}

impl<K: Clone + Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.unused();
        }
        let tried = std::mem::take(&mut self.tried);
        let mut table = self.shared.table.lock();
        let became_ready = table.turn_ends(&self.domain, &self.key, tried, self.leaves);
        drop(table);
        self.shared.notify(became_ready);
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Turn<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("domain", &self.domain)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
