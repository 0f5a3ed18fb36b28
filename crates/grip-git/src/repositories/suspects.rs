//! Repositories whose fetches failed as if their objects were damaged.

use std::collections::BTreeSet;

use grip_types::RepoAddr;
use parking_lot::Mutex;

use super::Repositories;

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
        let mut repositories = self.repositories.lock();
        let is_damage = COMPLAINTS.iter().any(|it| complaint.contains(it));
        if is_damage && repositories.len() < MAX_SUSPECTS {
            tracing::error!(%repo, complaint = complaint.lines().next(), "failed to answer a fetch; its objects will be checked");
            repositories.insert(repo.clone());
        }
    }
}

impl Repositories {
    /// The repositories whose fetches failed as if their objects were damaged, since the last call.
    pub fn take_suspects(&self) -> BTreeSet<RepoAddr> {
        std::mem::take(&mut self.inner.suspects.repositories.lock())
    }
}
