//! The durable form of what is held: one row per entry.

use grip_nostr::{Event, EventId, PublicKey, RepoAddr};
use grip_types::{Identifier, InvalidIdentifier, Oid, Origin};
use serde::{Deserialize, Serialize};

use crate::{
    AnnouncementEntry, Family, Held, Millis, Phase, PlaceholderRef, PrEntry, StateEntry, SyncEntry,
    WantedEntry, entry::NamedRef,
};

/// One row of the journal, in plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub class: String,
    pub key: String,
    pub identifier: String,
    /// JSON.
    pub payload: String,
    /// Milliseconds since 1970.
    pub expires_at: i64,
}

/// One step of the journal. Steps of one call belong into one transaction, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "what is not journalled is lost at the next restart"]
pub enum Change {
    /// Writes the row, over an older one of the same class and key.
    Put(Row),
    Remove {
        class: String,
        key: String,
    },
}

/// A row that could not be read back. It is not dropped: what to do with it is for a person.
#[derive(Debug, thiserror::Error)]
#[error("the purgatory row {:?} of class {:?} cannot be read", .row.key, .row.class)]
pub struct UnreadableRow {
    pub row: Row,
    pub source: ReadRowError,
}

/// What is wrong with a row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadRowError {
    #[error("its class is not known here")]
    Class,
    #[error("its payload is not what its class needs")]
    Payload(#[from] serde_json::Error),
    #[error(transparent)]
    Identifier(#[from] InvalidIdentifier),
    #[error("its key is no event id")]
    Key,
    #[error("its payload has no `{0}`")]
    Missing(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Announcement,
    State,
    Pr,
    Placeholder,
    Sync,
    Expired,
    Wanted,
}

/// In the order of the classes.
const CLASSES: [(Class, &str); 7] = [
    (Class::Announcement, "announcement"),
    (Class::State, "state"),
    (Class::Pr, "pr"),
    (Class::Placeholder, "placeholder"),
    (Class::Sync, "sync"),
    (Class::Expired, "expired"),
    (Class::Wanted, "wanted"),
];

impl Class {
    fn name(self) -> String {
        CLASSES[self as usize].1.to_owned()
    }

    fn parse(name: &str) -> Option<Self> {
        let found = CLASSES.iter().find(|(_, known)| *known == name);
        found.map(|(class, _)| *class)
    }
}

/// The payload of an event of any class; the fields at the end belong to some classes only.
#[derive(Serialize, Deserialize)]
struct HeldPayload {
    event: Event,
    #[serde(rename = "source")]
    origin: Origin,
    added_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<Oid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifiers: Option<Vec<Identifier>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    family: Option<FamilyPayload>,
}

/// Whose room it takes.
#[derive(Serialize, Deserialize)]
struct FamilyPayload {
    owner: PublicKey,
    identifier: Identifier,
    granted: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    contributor: bool,
}

impl From<&Family> for FamilyPayload {
    fn from(family: &Family) -> Self {
        Self {
            owner: family.repository.owner,
            identifier: family.repository.identifier.clone(),
            granted: family.granted,
            contributor: family.repository.is_contributor(),
        }
    }
}

impl From<FamilyPayload> for Family {
    fn from(payload: FamilyPayload) -> Self {
        Self {
            repository: repo(payload.contributor, payload.owner, payload.identifier),
            granted: payload.granted,
        }
    }
}

impl HeldPayload {
    fn new(held: &Held) -> Self {
        Self {
            event: held.event.unpack(),
            origin: held.origin,
            added_at: held.added_at,
            phase: None,
            commit: None,
            identifiers: None,
            family: held.family().map(FamilyPayload::from),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct PlaceholderPayload {
    event_id: EventId,
    owner: PublicKey,
    commit: Oid,
    added_at: Millis,
    #[serde(default, skip_serializing_if = "is_false")]
    contributor: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn repo(is_contributor: bool, owner: PublicKey, identifier: Identifier) -> RepoAddr {
    if is_contributor {
        RepoAddr::contributor(owner, identifier)
    } else {
        RepoAddr::new(owner, identifier)
    }
}

#[derive(Serialize, Deserialize)]
struct SyncPayload {
    attempt_count: u32,
}

impl Change {
    fn put(
        class: Class,
        key: String,
        identifier: &str,
        payload: &impl Serialize,
        at: Millis,
    ) -> Self {
        let payload = serde_json::to_string(payload);
        Self::Put(Row {
            class: class.name(),
            key,
            identifier: identifier.to_owned(),
            payload: payload.expect("events and plain values are always JSON"),
            expires_at: at.get(),
        })
    }

    /// Removes the row of a class that is named by an event id.
    pub(crate) fn remove(class: Class, id: &EventId) -> Self {
        let (class, key) = (class.name(), id.to_hex());
        Self::Remove { class, key }
    }

    pub(crate) fn remove_announcement(addr: &RepoAddr) -> Self {
        let (class, key) = (Class::Announcement.name(), repo_key(addr));
        Self::Remove { class, key }
    }

    pub(crate) fn remove_placeholder(id: &EventId, repo: &RepoAddr) -> Self {
        let (class, key) = (Class::Placeholder.name(), placeholder_key(id, repo));
        Self::Remove { class, key }
    }

    pub(crate) fn remove_sync(identifier: &Identifier) -> Self {
        let (class, key) = (Class::Sync.name(), identifier.as_str().to_owned());
        Self::Remove { class, key }
    }

    pub(crate) fn put_announcement(entry: &AnnouncementEntry) -> Self {
        let payload = HeldPayload {
            phase: Some(entry.phase),
            ..HeldPayload::new(&entry.held)
        };
        let (key, identifier) = (repo_key(&entry.addr), entry.addr.identifier.as_str());
        let at = entry.held.expires_at;
        Self::put(Class::Announcement, key, identifier, &payload, at)
    }

    pub(crate) fn put_state(entry: &StateEntry) -> Self {
        let (key, at) = (entry.held.id().to_hex(), entry.held.expires_at);
        let payload = HeldPayload::new(&entry.held);
        Self::put(Class::State, key, entry.identifier.as_str(), &payload, at)
    }

    pub(crate) fn put_pr(entry: &PrEntry) -> Self {
        let commit = Some(entry.commit);
        Self::put_of_many(Class::Pr, &entry.held, &entry.identifiers, commit)
    }

    pub(crate) fn put_wanted(entry: &WantedEntry) -> Self {
        Self::put_of_many(Class::Wanted, &entry.held, &entry.identifiers, None)
    }

    /// Of an event that concerns several identifiers.
    fn put_of_many(
        class: Class,
        held: &Held,
        identifiers: &[Identifier],
        commit: Option<Oid>,
    ) -> Self {
        let payload = HeldPayload {
            commit,
            identifiers: Some(identifiers.to_vec()),
            ..HeldPayload::new(held)
        };
        let first = identifiers.first().map_or("", Identifier::as_str);
        Self::put(class, held.id().to_hex(), first, &payload, held.expires_at)
    }

    pub(crate) fn put_placeholder(named: &NamedRef<'_>) -> Self {
        let payload = PlaceholderPayload {
            event_id: named.event_id,
            owner: named.repo.owner,
            commit: named.pushed.commit,
            added_at: named.pushed.added_at,
            contributor: named.repo.is_contributor(),
        };
        let key = placeholder_key(&named.event_id, named.repo);
        let (identifier, at) = (named.repo.identifier.as_str(), named.pushed.expires_at);
        Self::put(Class::Placeholder, key, identifier, &payload, at)
    }

    pub(crate) fn put_sync(identifier: &Identifier, entry: &SyncEntry) -> Self {
        let attempt_count = entry.attempt_count;
        let (key, at) = (identifier.as_str(), entry.next_attempt);
        let payload = SyncPayload { attempt_count };
        Self::put(Class::Sync, key.to_owned(), key, &payload, at)
    }

    /// The time is that of the expiry: it tells which id is forgotten first.
    pub(crate) fn put_expired(id: EventId, at: Millis) -> Self {
        let nothing = serde_json::Map::new();
        Self::put(Class::Expired, id.to_hex(), "", &nothing, at)
    }
}

fn repo_key(addr: &RepoAddr) -> String {
    let prefix = if addr.is_contributor() { "prs:" } else { "" };
    format!("{prefix}{}:{}", addr.owner.to_hex(), addr.identifier)
}

fn placeholder_key(id: &EventId, repo: &RepoAddr) -> String {
    format!("{}:{}", id.to_hex(), repo_key(repo))
}

/// A row read back.
pub(crate) enum Stored {
    Announcement(AnnouncementEntry),
    State(StateEntry),
    Pr(PrEntry),
    Placeholder {
        event_id: EventId,
        repo: RepoAddr,
        pushed: PlaceholderRef,
    },
    Sync(Identifier, SyncEntry),
    Expired(EventId, Millis),
    Wanted(WantedEntry),
}

impl Stored {
    pub(crate) fn read(row: &Row) -> Result<Self, ReadRowError> {
        let class = Class::parse(&row.class).ok_or(ReadRowError::Class)?;
        let expires_at = Millis::new(row.expires_at);
        Ok(match class {
            Class::Announcement | Class::State | Class::Pr | Class::Wanted => {
                Self::read_held(class, row)?
            }
            Class::Placeholder => {
                let payload: PlaceholderPayload = serde_json::from_str(&row.payload)?;
                let identifier = Identifier::parse(&row.identifier)?;
                Self::Placeholder {
                    event_id: payload.event_id,
                    repo: repo(payload.contributor, payload.owner, identifier),
                    pushed: PlaceholderRef {
                        commit: payload.commit,
                        added_at: payload.added_at,
                        expires_at,
                        network: None,
                    },
                }
            }
            Class::Sync => {
                let payload: SyncPayload = serde_json::from_str(&row.payload)?;
                let entry = SyncEntry {
                    next_attempt: expires_at,
                    attempt_count: payload.attempt_count,
                    in_progress: false,
                    renewed: false,
                };
                Self::Sync(Identifier::parse(&row.identifier)?, entry)
            }
            Class::Expired => {
                let id = EventId::from_hex(&row.key).map_err(|_| ReadRowError::Key)?;
                Self::Expired(id, expires_at)
            }
        })
    }

    fn read_held(class: Class, row: &Row) -> Result<Self, ReadRowError> {
        let payload: HeldPayload = serde_json::from_str(&row.payload)?;
        let at = Millis::new(row.expires_at);
        let held = Held::new(&payload.event, payload.origin, payload.added_at, at);
        let held = held.charged_to(payload.family.map(Family::from), None);
        let identifier = || Identifier::parse(&row.identifier);
        let identifiers = || {
            let identifiers = payload.identifiers.clone();
            identifiers.ok_or(ReadRowError::Missing("identifiers"))
        };
        Ok(match class {
            Class::Announcement => Self::Announcement(AnnouncementEntry {
                addr: RepoAddr::new(payload.event.pubkey, identifier()?),
                phase: payload.phase.ok_or(ReadRowError::Missing("phase"))?,
                held,
            }),
            Class::Pr => Self::Pr(PrEntry {
                commit: payload.commit.ok_or(ReadRowError::Missing("commit"))?,
                identifiers: identifiers()?,
                held,
            }),
            Class::Wanted => Self::Wanted(WantedEntry {
                identifiers: identifiers()?,
                held,
            }),
            _ => Self::State(StateEntry {
                identifier: identifier()?,
                held,
            }),
        })
    }
}
