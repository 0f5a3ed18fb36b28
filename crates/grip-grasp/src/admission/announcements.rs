//! The announcements of one identifier, served and held, and whom they trust.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use grip_nostr::{
    Announcement, Event, EventId, MaintainerRule, MaintainerSet, PublicKey, RepoAddr,
    maintainer_set, supersedes,
};
use grip_purgatory::Family;
use grip_types::Identifier;

use super::{Cause, KnownAnnouncement, Prefix, ReadAnnouncement, Reason, View, ViewError};
use crate::policy::Policy;

/// Repositories that one refusal speaks of.
const MAX_DENIALS: usize = 8;

/// The status of an event here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventStatus {
    Served,
    Held,
    /// Held, but its time ran out: without a repository until a state brings it back.
    Hidden,
}

impl Grant {
    /// The family in whose room an event by this grant is held.
    pub(super) fn family(&self) -> Family {
        Family {
            repository: self.repository.clone(),
            granted: self.status == EventStatus::Served,
        }
    }
}

/// The newest announcement of each author of one identifier (G01-68), banned ones left out.
#[derive(Clone, Debug)]
pub(crate) struct Announcements {
    identifier: Identifier,
    rule: MaintainerRule,
    by_author: BTreeMap<PublicKey, KnownAnnouncement>,
}

/// An owner whose refs a key may move, or is invited to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) repository: RepoAddr,
    pub(crate) status: EventStatus,
    /// The reciprocal rule would not grant it (G01-78).
    pub(crate) legacy_only: bool,
}

/// Why a key whom the legacy rule would trust may not move an owner's refs (G01-78).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) repository: RepoAddr,
    pub(crate) why: String,
}

impl Announcements {
    pub(crate) fn load(
        identifier: &Identifier,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<Self, ViewError> {
        let mut all = Self::none(identifier, policy);
        for known in view.announcements(identifier, policy)? {
            all.add(known);
        }
        Ok(all)
    }

    /// Those alone on which depends who maintains one repository, by the rule in force and by the legacy
    /// one: what strangers have under the same name costs nothing.
    pub(crate) fn load_of(
        addr: &RepoAddr,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<Self, ViewError> {
        let mut all = Self::none(&addr.identifier, policy);
        let mut read = BTreeSet::new();
        loop {
            let mut asked = all.asked_for(all.rule, &addr.owner);
            asked.extend(all.asked_for(MaintainerRule::Legacy, &addr.owner));
            let unread: Vec<PublicKey> = asked.difference(&read).copied().collect();
            if unread.is_empty() {
                return Ok(all);
            }
            for author in unread {
                let of_author = RepoAddr::new(author, addr.identifier.clone());
                for known in view.announcements_of(&of_author, policy)? {
                    all.add(known);
                }
                read.insert(author);
            }
        }
    }

    fn none(identifier: &Identifier, policy: &Policy) -> Self {
        Self {
            identifier: identifier.clone(),
            rule: policy.maintainer_rule,
            by_author: BTreeMap::new(),
        }
    }

    fn add(&mut self, known: KnownAnnouncement) {
        let event = &known.read.announcement.event;
        let before = self.of(&event.pubkey);
        if before.is_none_or(|(before, _)| supersedes(event, &before.event)) {
            self.put(known);
        }
    }

    fn put(&mut self, known: KnownAnnouncement) {
        let author = known.read.announcement.owner();
        self.by_author.insert(author, known);
    }

    /// The same announcements once `announcement` has taken the place of its author's last one.
    pub(crate) fn with(
        &self,
        announcement: &Announcement,
        status: EventStatus,
        policy: &Policy,
    ) -> Self {
        let read = Arc::new(ReadAnnouncement::new(announcement.clone(), policy));
        let mut all = self.clone();
        all.put(KnownAnnouncement { read, status });
        all
    }

    /// The same announcements but that of `owner`.
    pub(crate) fn without(&self, owner: &PublicKey) -> Self {
        let mut all = self.clone();
        all.by_author.remove(owner);
        all
    }

    pub(crate) fn of(&self, owner: &PublicKey) -> Option<(&Announcement, EventStatus)> {
        let known = self.by_author.get(owner)?;
        Some((&known.read.announcement, known.status))
    }

    /// Says whether the announcement of `owner` has a repository on this server.
    pub(crate) fn is_hosted(&self, owner: &PublicKey) -> bool {
        let known = self.by_author.get(owner);
        known.is_some_and(|it| it.read.is_hosted)
    }

    /// Says whether no repository of this identifier is announced on this server.
    pub(crate) fn is_empty(&self) -> bool {
        self.owners().next().is_none()
    }

    /// The owners with a place on this server, with or without a repository at the moment.
    fn owners(&self) -> impl Iterator<Item = (PublicKey, EventStatus)> {
        let hosted = self.by_author.iter().filter(|(_, it)| it.read.is_hosted);
        hosted.map(|(owner, known)| (*owner, known.status))
    }

    /// The repositories that are reachable here.
    pub(crate) fn hosted(&self) -> impl Iterator<Item = RepoAddr> {
        let reachable = self.owners().filter(|(_, s)| *s != EventStatus::Hidden);
        reachable.map(|(owner, _)| RepoAddr::new(owner, self.identifier.clone()))
    }

    /// The repositories of all who announced the identifier, here or elsewhere.
    pub(crate) fn authors(&self) -> impl Iterator<Item = RepoAddr> {
        let authors = self.by_author.keys();
        authors.map(|author| RepoAddr::new(*author, self.identifier.clone()))
    }

    /// The owners here whose maintainers depend on what `author` announces, the author among them. Of
    /// all who use the same name these are the ones that an announcement of his can concern.
    pub(crate) fn depending_on(&self, author: &PublicKey) -> BTreeSet<PublicKey> {
        let depends = |owner: &PublicKey| self.asked_for(self.rule, owner).contains(author);
        let mut owners: BTreeSet<PublicKey> = self.hosted().map(|addr| addr.owner).collect();
        owners.retain(depends);
        owners.insert(*author);
        owners
    }

    /// The keys whose announcements decide who maintains `owner`'s repository.
    fn asked_for(&self, rule: MaintainerRule, owner: &PublicKey) -> BTreeSet<PublicKey> {
        let asked = RefCell::new(BTreeSet::new());
        maintainer_set(rule, owner, |key| {
            asked.borrow_mut().insert(*key);
            Some(self.of(key)?.0)
        });
        asked.into_inner()
    }

    /// The keys whose states move `owner`'s refs.
    pub(crate) fn set_of(&self, owner: &PublicKey) -> MaintainerSet {
        self.set_by(self.rule, owner)
    }

    fn set_by(&self, rule: MaintainerRule, owner: &PublicKey) -> MaintainerSet {
        maintainer_set(rule, owner, |author| Some(self.of(author)?.0))
    }

    /// Says whether `key` is in `owner`'s set by the legacy rule alone (G01-78).
    pub(crate) fn is_legacy_only(&self, owner: &PublicKey, key: &PublicKey) -> bool {
        self.rule == MaintainerRule::Legacy
            && self.set_of(owner).contains(key)
            && !self.set_by(MaintainerRule::Reciprocal, owner).contains(key)
    }

    /// The set of `owner` by the legacy rule, where another is in force.
    pub(crate) fn legacy_set_of(&self, owner: &PublicKey) -> Option<MaintainerSet> {
        let is_other = self.rule != MaintainerRule::Legacy;
        is_other.then(|| self.set_by(MaintainerRule::Legacy, owner))
    }

    /// The owners on this server whose refs `author` may move, the author first.
    pub(crate) fn grants(&self, author: &PublicKey) -> Vec<Grant> {
        let mut grants = self.grants_where(|set| set.contains(author));
        for grant in &mut grants {
            grant.legacy_only = self.is_legacy_only(&grant.repository.owner, author);
        }
        grants.sort_by_key(|grant| grant.repository.owner != *author);
        grants
    }

    /// The owners on this server who wait for `author` to accept (G01-75).
    pub(crate) fn invitations(&self, author: &PublicKey) -> Vec<Grant> {
        self.grants_where(|set| set.invites(author))
    }

    fn grants_where(&self, is_it: impl Fn(&MaintainerSet) -> bool) -> Vec<Grant> {
        let granting = self
            .owners()
            .filter(|(owner, _)| is_it(&self.set_of(owner)));
        let grants = granting.map(|(owner, status)| Grant {
            repository: RepoAddr::new(owner, self.identifier.clone()),
            status,
            legacy_only: false,
        });
        grants.collect()
    }

    /// Why `author`, who owns repositories here or whom the legacy rule would trust with some, may
    /// not move their refs (G01-73, G01-78); the first few.
    pub(crate) fn denials(&self, author: &PublicKey) -> Vec<Denial> {
        let owners = self.owners().map(|(owner, _)| owner);
        let denials = owners.filter_map(|owner| self.denial(&owner, author));
        denials.take(MAX_DENIALS).collect()
    }

    /// Why `author`, who owns the repository or whom the legacy rule would trust with it, may not
    /// move its refs.
    fn denial(&self, owner: &PublicKey, author: &PublicKey) -> Option<Denial> {
        let set = self.set_of(owner);
        let by_legacy = || {
            self.legacy_set_of(owner)
                .is_some_and(|set| set.contains(author))
        };
        if set.contains(author) || !(owner == author || by_legacy()) {
            return None;
        }
        Some(Denial {
            repository: RepoAddr::new(*owner, self.identifier.clone()),
            why: why_not(&set, author),
        })
    }

    /// Says whether somebody else with a repository here, or one of their maintainers, lists
    /// `author`: as a maintainer, or as one who is to become it (G01-6).
    pub(crate) fn is_listed(&self, author: &PublicKey) -> bool {
        let mut others = self
            .hosted()
            .filter(|repository| repository.owner != *author);
        others.any(|repository| self.set_of(&repository.owner).names(author))
    }

    /// Everybody who may move the refs of an owner of such a status.
    pub(crate) fn maintainers(&self, of: impl Fn(EventStatus) -> bool) -> BTreeSet<PublicKey> {
        let owners = self.owners().filter(|(_, status)| of(*status));
        let sets = owners.map(|(owner, _)| self.set_of(&owner));
        sets.flat_map(|set| set.iter().copied().collect::<Vec<_>>())
            .collect()
    }

    /// The announcements of all who share a repository on this server with `key`: the author's own
    /// first, then of those both sides agree on, then of those by the legacy rule alone.
    ///
    /// The same identifier is not the same project: nobody else's announcement speaks for what
    /// `key` signs.
    pub(crate) fn family(&self, key: &PublicKey) -> Vec<&Announcement> {
        let mut ranks: BTreeMap<PublicKey, u8> = BTreeMap::new();
        for grant in self.grants(key) {
            for member in self.set_of(&grant.repository.owner).iter() {
                let rank = if member == key {
                    0
                } else {
                    1 + u8::from(grant.legacy_only)
                };
                let known = ranks.entry(*member).or_insert(rank);
                *known = rank.min(*known);
            }
        }
        let ranked = ranks.iter();
        let known = ranked.filter_map(|(member, rank)| Some((rank, self.of(member)?.0)));
        let mut family: Vec<_> = known.collect();
        family.sort_by_key(|(rank, _)| **rank);
        family.into_iter().map(|(_, known)| known).collect()
    }

    /// The keys whose states are held: who may move an owner's refs, and who is invited to (G01-80).
    pub(crate) fn awaited(&self) -> BTreeSet<PublicKey> {
        self.awaited_of(&self.owners().map(|(owner, _)| owner).collect())
    }

    /// Everybody who may move the refs of one of these owners.
    pub(crate) fn members_of(&self, owners: &BTreeSet<PublicKey>) -> BTreeSet<PublicKey> {
        let sets = owners.iter().map(|owner| self.set_of(owner));
        sets.flat_map(|set| set.iter().copied().collect::<Vec<_>>())
            .collect()
    }

    /// The same as [`Self::awaited`] of these owners alone.
    pub(crate) fn awaited_of(&self, owners: &BTreeSet<PublicKey>) -> BTreeSet<PublicKey> {
        let sets = owners.iter().map(|owner| self.set_of(owner));
        sets.flat_map(|set| set.iter().chain(set.invited()).copied().collect::<Vec<_>>())
            .collect()
    }

    /// Held states whose author may move nobody's refs any more, and is not invited to (G01-31).
    pub(crate) fn orphaned(&self, view: &dyn View) -> Result<Vec<EventId>, ViewError> {
        let held = view.held_states(&self.identifier)?;
        if held.is_empty() {
            return Ok(Vec::new());
        }
        let awaited = self.awaited();
        let orphaned = held.iter().filter(|state| !awaited.contains(&state.author));
        Ok(orphaned.map(|state| state.id).collect())
    }
}

/// Why `key` is not in `set`.
pub(crate) fn why_not(set: &MaintainerSet, key: &PublicKey) -> String {
    if let Some(why) = set.why_empty() {
        return format!("nobody may move its refs: {why}");
    }
    match set.objection(key) {
        Some(why) => format!("a maintainer lists the author, who {why}"),
        None => "no confirmed maintainer lists the author".to_owned(),
    }
}

/// Why `event` is no newer than `known`, if so (NIP-01).
pub(super) fn outdated(event: &Event, known: &Event) -> Option<Reason> {
    if !supersedes(known, event) {
        return None;
    }
    Some(if known.created_at == event.created_at {
        Reason::new(
            Prefix::Invalid,
            Cause::Tie,
            "you signed another version in the same second, and the one with the lowest id \
             counts (NIP-01); sign this again with a later created_at",
        )
    } else {
        Reason::new(
            Prefix::Invalid,
            Cause::Superseded,
            "a newer version is already here; sign this again with a later created_at if it is meant to count",
        )
    })
}

#[cfg(test)]
mod tests {
    use nostr::prelude::Keys;

    use super::*;
    use crate::admission::fake::{FakeView, addr, elsewhere, listing};

    #[test]
    fn who_maintains_a_repository_is_found_out_without_strangers_of_its_name() {
        let keys: Vec<Keys> = (0..5).map(|_| Keys::generate()).collect();
        let [owner, second, third, silent, held] = &keys[..] else {
            unreachable!()
        };
        for mut view in [FakeView::new(), FakeView::reciprocal()] {
            view.serve(&listing(owner, &[second, silent], 100));
            view.serve(&listing(second, &[owner, third, held], 100));
            view.serve(&elsewhere(third, &[second], 100));
            view.hold(&listing(held, &[second], 100));
            for _ in 0..300 {
                view.serve(&listing(&Keys::generate(), &[owner], 100));
            }
            let all = Announcements::load(&addr(owner).identifier, &view, &view.policy).unwrap();
            for owner in keys.iter().filter(|it| *it != silent) {
                view.reads.set(0);
                let own = Announcements::load_of(&addr(owner), &view, &view.policy).unwrap();
                assert!(view.reads.get() <= keys.len(), "{}", view.reads.get());
                let key = owner.public_key();
                let set = own.set_of(&key);
                assert_eq!(set, all.set_of(&key));
                assert!(set.contains(&third.public_key()));
                assert_eq!(own.legacy_set_of(&key), all.legacy_set_of(&key));
                assert_eq!(
                    own.of(&key).map(|(_, status)| status),
                    all.of(&key).map(|(_, status)| status)
                );
            }
        }
    }
}
