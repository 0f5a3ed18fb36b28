//! The repositories hosted here, in memory: every git request asks.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound,
    sync::Arc,
};

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
    owners: RwLock<Owners>,
    /// Those whose tags have moved or that are served from now on, or no more.
    pub(crate) tags: Arc<ChangeSet<RepoAddr>>,
    /// Those for which other events speak than before, or that are served from now on, or no more.
    pub(crate) events: Arc<ChangeSet<RepoAddr>>,
    /// Wakes the tasks that follow repositories on other relays.
    pub(crate) followed: Notify,
}

#[derive(Default)]
struct Owners {
    by_identifier: BTreeMap<Identifier, BTreeMap<PublicKey, RepositoryStatus>>,
    /// How many of each key: asked for every event that a client sends.
    of_key: HashMap<PublicKey, Owned>,
}

/// How many repositories a key has here. One that has none leaves the map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owned {
    served: usize,
    held: usize,
}

impl Owned {
    fn of(&mut self, status: RepositoryStatus) -> &mut usize {
        match status {
            RepositoryStatus::Served => &mut self.served,
            RepositoryStatus::Held => &mut self.held,
        }
    }
}

impl Owners {
    fn set(&mut self, addr: &RepoAddr, status: RepositoryStatus) -> Option<RepositoryStatus> {
        let of_identifier = self.by_identifier.entry(addr.identifier.clone());
        let before = of_identifier.or_default().insert(addr.owner, status);
        let owned = self.of_key.entry(addr.owner).or_default();
        *owned.of(status) += 1;
        if let Some(before) = before {
            *owned.of(before) -= 1;
        }
        before
    }

    fn remove(&mut self, addr: &RepoAddr) -> Option<RepositoryStatus> {
        let of_identifier = self.by_identifier.get_mut(&addr.identifier)?;
        let before = of_identifier.remove(&addr.owner)?;
        if of_identifier.is_empty() {
            self.by_identifier.remove(&addr.identifier);
        }
        if let Some(owned) = self.of_key.get_mut(&addr.owner) {
            *owned.of(before) -= 1;
            if *owned == Owned::default() {
                self.of_key.remove(&addr.owner);
            }
        }
        Some(before)
    }
}

impl HostedRepositories {
    pub(crate) fn status(&self, addr: &RepoAddr) -> Option<RepositoryStatus> {
        // A contributor repository is announced by nobody, whatever its owner hosts under the name.
        if addr.is_contributor() {
            return None;
        }
        let owners = self.owners.read();
        let of_identifier = owners.by_identifier.get(&addr.identifier)?;
        of_identifier.get(&addr.owner).copied()
    }

    /// The owners who have a repository of this identifier here.
    pub(crate) fn owners(&self, identifier: &Identifier) -> BTreeMap<PublicKey, RepositoryStatus> {
        let owners = self.owners.read();
        let of_identifier = owners.by_identifier.get(identifier);
        of_identifier.cloned().unwrap_or_default()
    }

    /// Says whether somebody has a repository here, served or held.
    pub(crate) fn is_owner(&self, key: &PublicKey) -> bool {
        self.owners.read().of_key.contains_key(key)
    }

    /// Says whether somebody has a repository that is served here.
    pub(crate) fn has_served(&self, key: &PublicKey) -> bool {
        let owners = self.owners.read();
        owners.of_key.get(key).is_some_and(|owned| owned.served > 0)
    }

    pub(crate) fn set(&self, addr: &RepoAddr, status: RepositoryStatus) {
        let before = self.owners.write().set(addr, status);
        if before != Some(status) {
            self.followed.notify_one();
        }
        if is_served(before) != is_served(Some(status)) {
            self.came_or_went(addr);
        }
    }

    pub(crate) fn remove(&self, addr: &RepoAddr) {
        let before = self.owners.write().remove(addr);
        if before.is_some() {
            self.followed.notify_one();
        }
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
        self.events_changed_of(identifier, self.owners(identifier).into_keys());
    }

    /// The same for those of some owners.
    pub(crate) fn events_changed_of(
        &self,
        identifier: &Identifier,
        owners: impl IntoIterator<Item = PublicKey>,
    ) {
        for owner in owners {
            let addr = RepoAddr::new(owner, identifier.clone());
            if is_served(self.status(&addr)) {
                self.events.add(&addr);
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<(RepoAddr, RepositoryStatus)> {
        let owners = self.owners.read();
        let by_identifier = owners.by_identifier.iter();
        by_identifier
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
        let all = owners.by_identifier.range((from, Bound::Unbounded));
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
        let owners = self.owners.read();
        owners.by_identifier.values().map(BTreeMap::len).sum()
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
        let owners = hosted.owners.read();
        assert!(owners.by_identifier.is_empty() && owners.of_key.is_empty());
        drop(owners);
        assert!(hosted.all().is_empty() && hosted.owners(&identifier).is_empty());
    }

    #[test]
    fn a_key_owns_until_its_last_repository_goes() {
        let hosted = HostedRepositories::default();
        let key = Keys::generate().public_key();
        let stands = || (hosted.is_owner(&key), hosted.has_served(&key));
        let [a, b] = ["a", "b"].map(|name| RepoAddr::new(key, Identifier::parse(name).unwrap()));
        assert_eq!(stands(), (false, false));
        hosted.set(&a, RepositoryStatus::Held);
        assert_eq!(stands(), (true, false));
        for status in [RepositoryStatus::Served, RepositoryStatus::Served] {
            hosted.set(&b, status);
            assert_eq!(stands(), (true, true));
        }
        hosted.remove(&a);
        assert_eq!(stands(), (true, true));
        hosted.set(&b, RepositoryStatus::Held);
        assert_eq!(stands(), (true, false));
        for _ in 0..2 {
            hosted.remove(&b);
            assert_eq!(stands(), (false, false));
        }
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
