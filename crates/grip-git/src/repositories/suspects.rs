//! Repositories whose fetches, repacks or collections failed as if their objects were damaged.

use std::collections::BTreeSet;

use grip_types::{Identifier, RepoAddr};
use parking_lot::Mutex;

use super::Repositories;
use crate::packs::RepackError;

/// How many are kept until somebody looks at them; the next fetch that fails names one again.
const MAX_SUSPECTS: usize = 64;
/// How git speaks of objects that it cannot read. What a client asked for wrongly is not among it.
const COMPLAINTS: [&str; 7] = [
    "corrupt",
    "missing blob",
    "missing tree",
    "missing commit",
    "unable to read",
    "inflate",
    "bad object",
];

#[derive(Default)]
pub(crate) struct Suspects {
    repositories: Mutex<BTreeSet<RepoAddr>>,
}

impl Suspects {
    /// Hears what git complained of when a fetch failed.
    pub(crate) fn hear(&self, repo: &RepoAddr, complaint: &str) {
        if is_damage(complaint) && self.add(repo) {
            tracing::error!(%repo, complaint = complaint.lines().next(), "failed to answer a fetch; its objects will be checked");
        }
    }

    /// False if it is there already, or if there are too many.
    fn add(&self, repo: &RepoAddr) -> bool {
        let mut repositories = self.repositories.lock();
        repositories.len() < MAX_SUSPECTS && repositories.insert(repo.clone())
    }
}

fn is_damage(complaint: &str) -> bool {
    COMPLAINTS.iter().any(|it| complaint.contains(it))
}

impl Repositories {
    /// Has every repository that shares a store checked where a repack or a collection found it damaged.
    pub(super) fn heard<T>(
        &self,
        identifier: &Identifier,
        done: Result<T, RepackError>,
    ) -> Result<T, RepackError> {
        let is_damaged = match &done {
            Err(RepackError::Incomplete { .. }) => true,
            Err(RepackError::Git(complaint)) => is_damage(complaint),
            _ => false,
        };
        if is_damaged {
            for repo in self.inner.holders(identifier)? {
                self.inner.suspects.add(&repo);
            }
        }
        done
    }

    /// The repositories whose fetches failed as if their objects were damaged, since the last call.
    pub fn take_suspects(&self) -> BTreeSet<RepoAddr> {
        std::mem::take(&mut self.inner.suspects.repositories.lock())
    }
}
