//! Someone's turn at a host.

use std::{collections::HashSet, fmt, hash::Hash, sync::Arc};

use grip_types::Domain;
use url::Url;

use super::Shared;
use crate::Permit;

/// The turn of one key at one host, with the permit for one request.
///
/// Dropping it puts the key back at the end of its line; a permit that was not taken out is given
/// back unused.
#[must_use = "a turn that is dropped puts its key back in line"]
pub struct Turn<K: Clone + Eq + Hash> {
    shared: Arc<Shared<K>>,
    domain: Domain,
    key: K,
    tried: HashSet<Url>,
    permit: Option<Permit>,
    leaves: bool,
}

impl<K: Clone + Eq + Hash> Turn<K> {
    pub(super) fn new(
        shared: Arc<Shared<K>>,
        domain: Domain,
        key: K,
        tried: HashSet<Url>,
        permit: Permit,
    ) -> Self {
        Self {
            shared,
            domain,
            key,
            tried,
            permit: Some(permit),
            leaves: false,
        }
    }

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

    /// Remembers that `url` was tried; the key goes to the end of the line for the next round.
    pub fn tried_url(mut self, url: Url) {
        self.tried.insert(url);
    }

    /// The key leaves the line of this host.
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
        let mut lines = self.shared.lines.lock();
        let became_ready = lines.turn_ends(&self.domain, &self.key, tried, self.leaves);
        drop(lines);
        self.shared.tell(became_ready);
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
