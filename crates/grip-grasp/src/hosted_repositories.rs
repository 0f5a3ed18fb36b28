//! The repositories hosted here, in memory: every git request asks.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use grip_nostr::{PublicKey, RepoAddr};
use grip_tasks::ChangeSet;
use grip_types::Identifier;
use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::Grasp;

/// How a hosted repository stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
    owners: RwLock<BTreeMap<Identifier, BTreeMap<PublicKey, RepositoryStatus>>>,
    /// Those whose tags have moved or that are served from now on, or no more.
    pub(crate) tags: Arc<ChangeSet<RepoAddr>>,
    /// Those for which other events speak than before, or that are served from now on, or no more.
    pub(crate) events: Arc<ChangeSet<RepoAddr>>,
    /// Wakes the tasks that follow repositories on other relays.
    pub(crate) followed: Notify,
}

impl HostedRepositories {
    pub(crate) fn status(&self, addr: &RepoAddr) -> Option<RepositoryStatus> {
        // A contributor repository is announced by nobody, whatever its owner hosts under the name.
        if addr.is_contributor() {
            return None;
        }
        let owners = self.owners.read();
        owners.get(&addr.identifier)?.get(&addr.owner).copied()
    }

    /// The owners who have a repository of this identifier here.
    pub(crate) fn owners(&self, identifier: &Identifier) -> BTreeMap<PublicKey, RepositoryStatus> {
        let owners = self.owners.read();
        owners.get(identifier).cloned().unwrap_or_default()
    }

    /// Says whether somebody has a repository here, served or held.
    pub(crate) fn is_owner(&self, key: &PublicKey) -> bool {
        let owners = self.owners.read();
        owners.values().any(|of_one| of_one.contains_key(key))
    }

    /// Says whether somebody has a repository that is served here.
    pub(crate) fn has_served(&self, key: &PublicKey) -> bool {
        let owners = self.owners.read();
        let mut of_each = owners.values();
        of_each.any(|of_one| is_served(of_one.get(key).copied()))
    }

    pub(crate) fn set(&self, addr: &RepoAddr, status: RepositoryStatus) {
        let mut owners = self.owners.write();
        let of_identifier = owners.entry(addr.identifier.clone()).or_default();
        let before = of_identifier.insert(addr.owner, status);
        drop(owners);
        if before != Some(status) {
            self.followed.notify_one();
        }
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
        self.followed.notify_one();
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
        owners
            .iter()
            .flat_map(|(identifier, of_identifier)| {
                of_identifier
                    .iter()
                    .map(|(owner, status)| (RepoAddr::new(*owner, identifier.clone()), *status))
            })
            .collect()
    }

    /// Up to `limit` served repositories after `after`, by identifier and owner.
    pub(crate) fn served_after(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        let owners = self.owners.read();
        let from = after.map_or(Bound::Unbounded, |after| Bound::Included(&after.identifier));
        let all = owners.range((from, Bound::Unbounded));
        let all = all.flat_map(|(identifier, of_identifier)| {
            let served = of_identifier.iter().filter(|(_, it)| is_served(Some(**it)));
            served.map(move |(owner, _)| (identifier, owner))
        });
        let is_later = |(identifier, owner): &(&Identifier, &PublicKey)| {
            after.is_none_or(|after| (*identifier, *owner) > (&after.identifier, &after.owner))
        };
        let page = all.filter(is_later).take(limit);
        page.map(|(identifier, owner)| RepoAddr::new(*owner, identifier.clone()))
            .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.read().values().map(BTreeMap::len).sum()
    }
}

impl Grasp {
    /// Follows tags that move and repositories that are added or removed, from now on, in place of
    /// an earlier follower.
    pub fn changes(&self) -> Arc<ChangeSet<RepoAddr>> {
        self.core.hosted.tags.follow();
        Arc::clone(&self.core.hosted.tags)
    }

    /// Follows which repositories have other [`grip_nostr::RepositoryEvents`] than before, from now
    /// on, in place of an earlier follower.
    pub fn repository_event_changes(&self) -> Arc<ChangeSet<RepoAddr>> {
        self.core.hosted.events.follow();
        Arc::clone(&self.core.hosted.events)
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

    #[test]
    fn pages_bring_every_served_repository_once() {
        let hosted = HostedRepositories::default();
        let owners: Vec<_> = (0..4).map(|_| Keys::generate().public_key()).collect();
        let mut expected = Vec::new();
        for identifier in ["a", "b", "c"].map(|name| Identifier::parse(name).unwrap()) {
            for (n, owner) in owners.iter().enumerate() {
                let addr = RepoAddr::new(*owner, identifier.clone());
                let is_held = n == 1;
                let status = if is_held {
                    RepositoryStatus::Held
                } else {
                    RepositoryStatus::Served
                };
                hosted.set(&addr, status);
                expected.extend((!is_held).then_some(addr));
            }
        }
        let mut listed: Vec<RepoAddr> = Vec::new();
        loop {
            let page = hosted.served_after(listed.last(), 2);
            listed.extend(page.iter().cloned());
            if page.len() < 2 {
                break;
            }
        }
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected);
    }
}
