//! The announcements of one identifier, served and held, and whom they trust.

use std::collections::{BTreeMap, BTreeSet};

use grip_nostr::{
    Announcement, Event, EventId, MaintainerRule, MaintainerSet, PublicKey, RepoAddr,
    maintainer_set, supersedes,
};
use grip_purgatory::Family;
use grip_types::{Identifier, Service};

use super::{Cause, Prefix, Reason, View, ViewError};
use crate::policy::Policy;

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

/// The newest announcement of each author of one identifier (G01-28), banned ones left out.
#[derive(Clone, Debug)]
pub(crate) struct Announcements {
    identifier: Identifier,
    /// The names of this server.
    names: Vec<Service>,
    rule: MaintainerRule,
    by_author: BTreeMap<PublicKey, (Announcement, EventStatus)>,
}

/// An owner whose refs a key may move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) repository: RepoAddr,
    pub(crate) status: EventStatus,
    /// The reciprocal rule would not grant it (G01-28).
    pub(crate) legacy_only: bool,
}

impl Announcements {
    pub(crate) fn load(
        identifier: &Identifier,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<Self, ViewError> {
        let mut all = Self {
            identifier: identifier.clone(),
            names: policy.names().cloned().collect(),
            rule: policy.maintainer_rule,
            by_author: BTreeMap::new(),
        };
        let served = view.served_announcements(identifier)?;
        let served = served.into_iter().map(|event| (event, EventStatus::Served));
        let held = view.held_announcements(identifier)?;
        let held = held.into_iter().map(|held| {
            if held.hidden {
                (held.event, EventStatus::Hidden)
            } else {
                (held.event, EventStatus::Held)
            }
        });
        for (event, status) in served.chain(held) {
            // What does not parse was never admitted; what is banned counts no longer.
            if let Ok(announcement) = Announcement::parse(event)
                && !policy.bans(&announcement.addr())
            {
                all.add(announcement, status);
            }
        }
        Ok(all)
    }

    fn add(&mut self, announcement: Announcement, status: EventStatus) {
        let known = self.by_author.get(&announcement.owner());
        if known.is_none_or(|(known, _)| supersedes(&announcement.event, &known.event)) {
            let entry = (announcement, status);
            self.by_author.insert(entry.0.owner(), entry);
        }
    }

    /// The same announcements once `announcement` has taken the place of its author's last one.
    pub(crate) fn with(&self, announcement: &Announcement, status: EventStatus) -> Self {
        let mut all = self.clone();
        let entry = (announcement.clone(), status);
        all.by_author.insert(announcement.owner(), entry);
        all
    }

    /// The same announcements but that of `owner`.
    pub(crate) fn without(&self, owner: &PublicKey) -> Self {
        let mut all = self.clone();
        all.by_author.remove(owner);
        all
    }

    pub(crate) fn of(&self, owner: &PublicKey) -> Option<(&Announcement, EventStatus)> {
        let (announcement, status) = self.by_author.get(owner)?;
        Some((announcement, *status))
    }

    /// Says whether nobody announced a repository of this identifier on this server.
    pub(crate) fn is_empty(&self) -> bool {
        self.owners().next().is_none()
    }

    /// The owners who chose this server, with or without a repository at the moment.
    fn owners(&self) -> impl Iterator<Item = (PublicKey, EventStatus)> {
        let lists_us = |(a, _): &&(Announcement, EventStatus)| {
            let mut names = self.names.iter();
            names.any(|name| a.lists(name))
        };
        let entries = self.by_author.values().filter(lists_us);
        entries.map(|(a, status)| (a.owner(), *status))
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

    /// The keys whose states move `owner`'s refs.
    pub(crate) fn set_of(&self, owner: &PublicKey) -> MaintainerSet {
        self.set_by(self.rule, owner)
    }

    fn set_by(&self, rule: MaintainerRule, owner: &PublicKey) -> MaintainerSet {
        maintainer_set(rule, owner, |author| Some(&self.by_author.get(author)?.0))
    }

    /// Says whether `key` is in `owner`'s set by the legacy rule alone (G01-28).
    pub(crate) fn is_legacy_only(&self, owner: &PublicKey, key: &PublicKey) -> bool {
        self.rule == MaintainerRule::Legacy
            && self.set_of(owner).contains(key)
            && !self.set_by(MaintainerRule::Reciprocal, owner).contains(key)
    }

    /// The owners on this server whose refs `author` may move, the author first.
    pub(crate) fn grants(&self, author: &PublicKey) -> Vec<Grant> {
        let granting = self
            .owners()
            .filter(|(owner, _)| self.set_of(owner).contains(author));
        let grants = granting.map(|(owner, status)| Grant {
            repository: RepoAddr::new(owner, self.identifier.clone()),
            status,
            legacy_only: self.is_legacy_only(&owner, author),
        });
        let mut grants: Vec<Grant> = grants.collect();
        grants.sort_by_key(|grant| grant.repository.owner != *author);
        grants
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

    /// Held states whose author may move nobody's refs any more (G01-31).
    pub(crate) fn orphaned(&self, view: &dyn View) -> Result<Vec<EventId>, ViewError> {
        let held = view.held_states(&self.identifier)?;
        let trusted = self.maintainers(|_| true);
        let orphaned = held.iter().filter(|state| !trusted.contains(&state.author));
        Ok(orphaned.map(|state| state.id).collect())
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
