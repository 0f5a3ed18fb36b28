//! Entries of the purgatory.

use std::{collections::BTreeMap, sync::Arc};

use grip_nostr::{Event, EventId, PublicKey, RepoAddr, kinds};
use grip_types::{ClientNetwork, EventSource, Identifier, ObjectFormat, Oid, Origin};
use serde::{Deserialize, Serialize};

use crate::{
    CompactEvent, Millis,
    bounds::{FamilyCount, Weight},
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

/// The maintainers of one repository, among whom its author finds room for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    pub repository: RepoAddr,
    /// The repository is served, and the author may move its refs.
    pub granted: bool,
}

/// Where an event came from, and whose room it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    pub source: EventSource,
    /// The first with room is taken; without any, the author stands alone.
    pub families: Vec<Family>,
}

impl From<Origin> for Provenance {
    fn from(origin: Origin) -> Self {
        Self {
            source: origin.into(),
            families: Vec::new(),
        }
    }
}

/// Whose share a held event uses up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    /// None for the author alone.
    pub(crate) family: Option<Family>,
    /// Not journalled: after a restart it counts for nobody's network.
    pub(crate) network: Option<ClientNetwork>,
}

/// An event that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub event: CompactEvent,
    pub origin: Origin,
    pub added_at: Millis,
    /// When it is given up, unless the event itself ends sooner (NIP-40).
    pub expires_at: Millis,
    /// None for a stranger from nowhere.
    pub(crate) charge: Option<Arc<Charge>>,
}

impl Held {
    pub(crate) fn new(event: &Event, origin: Origin, added_at: Millis, expires_at: Millis) -> Self {
        Self {
            event: CompactEvent::new(event),
            origin,
            added_at,
            expires_at,
            charge: None,
        }
    }

    /// The same, held in the room of `family`.
    pub(crate) fn charged_to(self, family: Option<Family>, network: Option<ClientNetwork>) -> Self {
        let charge = (family.is_some() || network.is_some()).then(|| {
            let charge = Charge { family, network };
            Arc::new(charge)
        });
        Self { charge, ..self }
    }

    pub(crate) fn family(&self) -> Option<&Family> {
        self.charge.as_ref()?.family.as_ref()
    }

    pub(crate) fn network(&self) -> Option<ClientNetwork> {
        self.charge.as_ref()?.network
    }

    /// Says whether its author maintained something served when it came.
    pub(crate) fn is_granted(&self) -> bool {
        self.family().is_some_and(|family| family.granted)
    }

    /// The repository whose maintainers' room it takes; the author's own under `identifier` if no
    /// other is known.
    fn family_of(&self, identifier: Option<&Identifier>) -> Option<RepoAddr> {
        match self.family() {
            Some(family) => Some(family.repository.clone()),
            None => identifier.map(|it| RepoAddr::new(self.author(), it.clone())),
        }
    }

    /// Says whether both take room in the same family and pool.
    pub(crate) fn shares_room_with(&self, other: &Self) -> bool {
        match (self.family(), other.family()) {
            // Pull requests without one are from before families were counted.
            (None, None) if self.event.kind() != kinds::STATE => true,
            (None, None) => self.author() == other.author(),
            (one, other) => one == other,
        }
    }

    /// Says whether it takes room in the family and the pool of `weight`.
    fn shares_room(&self, weight: &Weight) -> bool {
        let Some(repository) = &weight.family else {
            return false;
        };
        match self.family() {
            Some(family) => family.granted == weight.granted && family.repository == *repository,
            None => !weight.granted && self.author() == repository.owner,
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

    fn indexed(&self, class: Class, identifier: Option<&Identifier>) -> Indexed {
        Indexed {
            key: Key::Event(self.id()),
            times: Times {
                added_at: self.added_at,
                deadline: self.deadline(),
            },
            weight: Weight {
                class,
                author: Some(self.author()),
                network: self.network(),
                family: self.family_of(identifier),
                granted: self.is_granted(),
                hidden: false,
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
    /// Whose share it uses up: the network of the first push. Not journalled: after a restart it
    /// counts for nobody's.
    pub network: Option<ClientNetwork>,
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

/// Counts those of `held` that take room beside `weight`.
pub(crate) fn count_family<'a>(
    held: impl Iterator<Item = &'a Held>,
    weight: &Weight,
) -> FamilyCount {
    let mut count = FamilyCount::default();
    for held in held.filter(|held| held.shares_room(weight)) {
        let bytes = held.size_bytes();
        count.entries += 1;
        count.bytes += bytes;
        if held.network() == weight.network {
            count.of_network += 1;
            count.bytes_of_network += bytes;
        }
    }
    count
}

impl Entry for AnnouncementEntry {
    fn indexed(&self) -> Indexed {
        let held = &self.held;
        let mut indexed = held.indexed(Class::Announcement, Some(&self.addr.identifier));
        indexed.weight.hidden = self.phase == Phase::Hidden;
        indexed
    }
}

impl Entry for StateEntry {
    fn indexed(&self) -> Indexed {
        self.held.indexed(Class::State, Some(&self.identifier))
    }
}

impl Entry for PrEntry {
    fn indexed(&self) -> Indexed {
        self.held.indexed(Class::Pr, self.identifiers.first())
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
                network: self.pushed.network,
                family: Some(self.repo.clone()),
                granted: false,
                hidden: false,
                bytes: 0,
            },
        }
    }
}
