//! Entries of the purgatory.

use std::collections::BTreeMap;

use grip_nostr::{Event, EventId, PublicKey, RepoAddr, kinds};
use grip_types::{Identifier, ObjectFormat, Oid, Origin};
use serde::{Deserialize, Serialize};

use crate::{
    CompactEvent, Millis,
    bounds::Weight,
    journal::Class,
    schedule::{Key, Times},
};

/// Whether a held announcement has a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Its empty repository can be reached over git.
    Shown,
    /// Its repository is gone; a state event can still revive it (G01-20).
    Hidden,
}

/// An event that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub event: CompactEvent,
    pub origin: Origin,
    pub added_at: Millis,
    /// When it is given up, unless the event itself ends sooner (NIP-40).
    pub expires_at: Millis,
}

impl Held {
    pub(crate) fn new(event: &Event, origin: Origin, added_at: Millis, expires_at: Millis) -> Self {
        Self {
            event: CompactEvent::new(event),
            origin,
            added_at,
            expires_at,
        }
    }

    pub fn id(&self) -> EventId {
        self.event.id()
    }

    pub fn author(&self) -> PublicKey {
        self.event.author()
    }

    /// When it leaves: its expiry, or the event's own end if that comes first.
    pub fn deadline(&self) -> Millis {
        match self.event.ends_at() {
            Some(end) => self.expires_at.min(end),
            None => self.expires_at,
        }
    }

    /// Says whether the event's own end has come (NIP-40).
    pub(crate) fn has_ended(&self, now: Millis) -> bool {
        self.event.ends_at().is_some_and(|end| end <= now)
    }

    /// What it takes up in memory, near enough for a bound.
    fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.event.size_bytes()
    }

    fn indexed(&self, class: Class, identifiers: Vec<Identifier>) -> Indexed {
        Indexed {
            key: Key::Event(self.id()),
            times: Times {
                added_at: self.added_at,
                deadline: self.deadline(),
            },
            weight: Weight {
                class,
                author: Some(self.author()),
                identifiers,
                bytes: self.size_bytes(),
            },
        }
    }
}

/// A held announcement (kind 30617).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnouncementEntry {
    pub addr: RepoAddr,
    pub phase: Phase,
    pub held: Held,
}

/// A held state (kind 30618).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    pub identifier: Identifier,
    pub held: Held,
}

/// A held pull request or update (kinds 1618 and 1619).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrEntry {
    /// The tip it waits for.
    pub commit: Oid,
    /// The identifiers of the repositories it concerns, sorted.
    pub identifiers: Vec<Identifier>,
    pub held: Held,
}

/// A state or pull request that expired without its data, which is still looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedEntry {
    /// The identifiers of the repositories it concerns, sorted.
    pub identifiers: Vec<Identifier>,
    /// The event as it was held; its times are those of the search after it expired.
    pub held: Held,
}

impl WantedEntry {
    /// Says whether it is a state, and else a pull request or an update of one.
    pub fn is_state(&self) -> bool {
        self.held.event.kind() == kinds::STATE
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.held.size_bytes()
    }
}

/// The pushed refs `refs/nostr/<id>` that wait for the event of that id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placeholder {
    /// By the repository that was pushed to.
    pub refs: BTreeMap<RepoAddr, PlaceholderRef>,
}

/// One such ref in one repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceholderRef {
    pub commit: Oid,
    /// The first push.
    pub added_at: Millis,
    /// 20 minutes from the last push.
    pub expires_at: Millis,
}

impl Placeholder {
    /// The repositories where the ref has `commit`.
    pub fn matching(&self, commit: Oid) -> impl Iterator<Item = &RepoAddr> {
        let hits = self.refs.iter().filter(move |(_, r)| r.commit == commit);
        hits.map(|(repo, _)| repo)
    }
}

/// Says whether an object of this name can ever be here: repositories are SHA-1 ones. What cannot
/// is not looked for.
pub fn can_be_here(oid: &Oid) -> bool {
    oid.format() == ObjectFormat::Sha1
}

/// What the indexes need to know of an entry.
pub(crate) struct Indexed {
    pub(crate) key: Key,
    pub(crate) times: Times,
    pub(crate) weight: Weight,
}

/// An entry of any class.
pub(crate) trait Entry {
    fn indexed(&self) -> Indexed;
}

impl Entry for AnnouncementEntry {
    fn indexed(&self) -> Indexed {
        let identifiers = vec![self.addr.identifier.clone()];
        self.held.indexed(Class::Announcement, identifiers)
    }
}

impl Entry for StateEntry {
    fn indexed(&self) -> Indexed {
        let identifiers = vec![self.identifier.clone()];
        self.held.indexed(Class::State, identifiers)
    }
}

impl Entry for PrEntry {
    fn indexed(&self) -> Indexed {
        self.held.indexed(Class::Pr, self.identifiers.clone())
    }
}

/// A placeholder ref together with its name.
#[derive(Clone, Copy)]
pub(crate) struct NamedRef<'a> {
    pub(crate) event_id: EventId,
    pub(crate) repo: &'a RepoAddr,
    pub(crate) pushed: PlaceholderRef,
}

impl Entry for NamedRef<'_> {
    fn indexed(&self) -> Indexed {
        Indexed {
            key: Key::Placeholder(self.event_id, self.repo.clone()),
            times: Times {
                added_at: self.pushed.added_at,
                deadline: self.pushed.expires_at,
            },
            weight: Weight {
                class: Class::Placeholder,
                author: None,
                identifiers: vec![self.repo.identifier.clone()],
                bytes: 0,
            },
        }
    }
}
