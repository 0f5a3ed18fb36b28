//! The repositories hosted here, in memory: every git request asks.

use std::collections::{BTreeMap, HashMap};

use grip_nostr::{PublicKey, RepoAddr};
use grip_types::Identifier;
use parking_lot::RwLock;
use serde::Serialize;

use crate::repository_changes::PendingChanges;

/// How a hosted repository stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RepositoryStatus {
    /// Its announcement is served.
    Served,
    /// Its announcement waits for the first git data.
    Held,
}

/// The hosted repositories, kept in step with disk in the identifier's turn.
///
/// Its size is that of the repositories on disk, which admission bounds.
#[derive(Default)]
pub(crate) struct HostedRepositories {
    owners: RwLock<HashMap<Identifier, BTreeMap<PublicKey, RepositoryStatus>>>,
    /// Those whose tags have moved or that are served from now on, or no more.
    pub(crate) tags: PendingChanges,
    /// Those for which other events speak than before, or that are served from now on, or no more.
    pub(crate) events: PendingChanges,
}

impl HostedRepositories {
    pub(crate) fn status(&self, addr: &RepoAddr) -> Option<RepositoryStatus> {
        let owners = self.owners.read();
        owners.get(&addr.identifier)?.get(&addr.owner).copied()
    }

    /// The owners who have a repository of this identifier here.
    pub(crate) fn owners(&self, identifier: &Identifier) -> BTreeMap<PublicKey, RepositoryStatus> {
        let owners = self.owners.read();
        owners.get(identifier).cloned().unwrap_or_default()
    }

    pub(crate) fn set(&self, addr: &RepoAddr, status: RepositoryStatus) {
        let mut owners = self.owners.write();
        let of_identifier = owners.entry(addr.identifier.clone()).or_default();
        let before = of_identifier.insert(addr.owner, status);
        drop(owners);
        if is_served(before) != is_served(Some(status)) {
            self.came_or_went(addr);
        }
    }

    pub(crate) fn remove(&self, addr: &RepoAddr) {
        let mut owners = self.owners.write();
        let Some(of_identifier) = owners.get_mut(&addr.identifier) else {
            return;
        };
        let before = of_identifier.remove(&addr.owner);
        if of_identifier.is_empty() {
            owners.remove(&addr.identifier);
        }
        drop(owners);
        if is_served(before) {
            self.came_or_went(addr);
        }
    }

    fn came_or_went(&self, addr: &RepoAddr) {
        self.tags.add(addr);
        self.events.add(addr);
    }

    /// Notes that other events may speak for the served repositories of `identifier`.
    pub(crate) fn events_changed(&self, identifier: &Identifier) {
        for (owner, status) in self.owners(identifier) {
            if is_served(Some(status)) {
                self.events.add(&RepoAddr::new(owner, identifier.clone()));
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<(RepoAddr, RepositoryStatus)> {
        let owners = self.owners.read();
        let mut all: Vec<_> = owners
            .iter()
            .flat_map(|(identifier, of_identifier)| {
                of_identifier
                    .iter()
                    .map(|(owner, status)| (RepoAddr::new(*owner, identifier.clone()), *status))
            })
            .collect();
        all.sort_by(|(a, _), (b, _)| (&a.identifier, a.owner).cmp(&(&b.identifier, b.owner)));
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.read().values().map(BTreeMap::len).sum()
    }
}

fn is_served(status: Option<RepositoryStatus>) -> bool {
    status == Some(RepositoryStatus::Served)
}

#[cfg(test)]
mod tests {
    use nostr::prelude::Keys;

    use super::*;

    #[test]
    fn an_identifier_without_owners_leaves_the_map() {
        let hosted = HostedRepositories::default();
        let identifier = Identifier::parse("x").unwrap();
        let addr = RepoAddr::new(Keys::generate().public_key(), identifier.clone());
        hosted.set(&addr, RepositoryStatus::Held);
        hosted.set(&addr, RepositoryStatus::Served);
        assert_eq!(hosted.status(&addr), Some(RepositoryStatus::Served));
        assert_eq!(hosted.len(), 1);
        hosted.remove(&addr);
        assert_eq!(hosted.status(&addr), None);
        assert!(hosted.owners.read().is_empty() && hosted.all().is_empty());
        assert!(hosted.owners(&identifier).is_empty());
    }
}
