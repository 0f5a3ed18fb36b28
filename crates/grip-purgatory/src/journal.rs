//! The durable form of what is held: one row per entry.

mod stored;

use grip_nostr::{Event, EventId, PublicKey, RepoAddr};
use grip_types::{Identifier, InvalidIdentifier, Oid, Origin};
use serde::{Deserialize, Serialize};

pub(crate) use stored::Stored;

use crate::{
    AnnouncementEntry, Held, Millis, Phase, PrEntry, StateEntry, SyncEntry, WantedEntry,
    entry::NamedRef,
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
    /// No row: data of this identifier is to be looked for now and then from now on, because an
    /// event of it is wanted. When, is for somebody else to know.
    Want(Identifier),
    /// No row: no event of this identifier is wanted any more.
    Unwant(Identifier),
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

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Announcement => "announcement",
            Self::State => "state",
            Self::Pr => "pr",
            Self::Placeholder => "placeholder",
            Self::Sync => "sync",
            Self::Expired => "expired",
            Self::Wanted => "wanted",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let all = [
            Self::Announcement,
            Self::State,
            Self::Pr,
            Self::Placeholder,
            Self::Sync,
            Self::Expired,
            Self::Wanted,
        ];
        all.into_iter().find(|class| class.name() == name)
    }
}

/// What is written of an event of any class; the fields at the end belong to some classes only.
#[derive(Serialize)]
struct HeldPayload<'a> {
    event: Event,
    #[serde(rename = "source")]
    origin: Origin,
    added_at: Millis,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<Oid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identifiers: Option<&'a [Identifier]>,
}

#[derive(Deserialize)]
struct StoredHeld {
    event: Event,
    #[serde(rename = "source")]
    origin: Origin,
    added_at: Millis,
    phase: Option<Phase>,
    commit: Option<Oid>,
    identifiers: Option<Vec<Identifier>>,
}

#[derive(Serialize, Deserialize)]
struct PlaceholderPayload {
    event_id: EventId,
    owner: PublicKey,
    commit: Oid,
    added_at: Millis,
}

#[derive(Serialize, Deserialize)]
struct SyncPayload {
    attempt_count: u32,
}

/// In the row of a search: when somebody asks for it.
const NEVER: Millis = Millis::new(i64::MAX);

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("events and plain values are always JSON")
}

impl Change {
    fn put(class: Class, key: String, identifier: &str, payload: String, at: Millis) -> Self {
        Self::Put(Row {
            class: class.name().to_owned(),
            key,
            identifier: identifier.to_owned(),
            payload,
            expires_at: at.get(),
        })
    }

    fn removal(class: Class, key: String) -> Self {
        Self::Remove {
            class: class.name().to_owned(),
            key,
        }
    }

    pub(crate) fn remove_announcement(addr: &RepoAddr) -> Self {
        Self::removal(Class::Announcement, repo_key(addr))
    }

    pub(crate) fn remove_state(id: &EventId) -> Self {
        Self::removal(Class::State, id.to_hex())
    }

    pub(crate) fn remove_pr(id: &EventId) -> Self {
        Self::removal(Class::Pr, id.to_hex())
    }

    pub(crate) fn remove_placeholder(id: &EventId, repo: &RepoAddr) -> Self {
        Self::removal(Class::Placeholder, placeholder_key(id, repo))
    }

    pub(crate) fn put_announcement(entry: &AnnouncementEntry) -> Self {
        let payload = HeldPayload {
            phase: Some(entry.phase),
            ..HeldPayload::new(&entry.held)
        };
        Self::put(
            Class::Announcement,
            repo_key(&entry.addr),
            entry.addr.identifier.as_str(),
            json(&payload),
            entry.held.expires_at,
        )
    }

    pub(crate) fn put_state(entry: &StateEntry) -> Self {
        Self::put(
            Class::State,
            entry.held.id().to_hex(),
            entry.identifier.as_str(),
            json(&HeldPayload::new(&entry.held)),
            entry.held.expires_at,
        )
    }

    pub(crate) fn put_pr(entry: &PrEntry) -> Self {
        let payload = HeldPayload {
            commit: Some(entry.commit),
            identifiers: Some(&entry.identifiers),
            ..HeldPayload::new(&entry.held)
        };
        let first = entry.identifiers.first();
        Self::put(
            Class::Pr,
            entry.held.id().to_hex(),
            first.map_or("", Identifier::as_str),
            json(&payload),
            entry.held.expires_at,
        )
    }

    pub(crate) fn put_wanted(entry: &WantedEntry) -> Self {
        let payload = HeldPayload {
            identifiers: Some(&entry.identifiers),
            ..HeldPayload::new(&entry.held)
        };
        let first = entry.identifiers.first();
        Self::put(
            Class::Wanted,
            entry.held.id().to_hex(),
            first.map_or("", Identifier::as_str),
            json(&payload),
            entry.held.expires_at,
        )
    }

    pub(crate) fn remove_wanted(id: &EventId) -> Self {
        Self::removal(Class::Wanted, id.to_hex())
    }

    pub(crate) fn put_placeholder(named: &NamedRef<'_>) -> Self {
        let payload = PlaceholderPayload {
            event_id: named.event_id,
            owner: named.repo.owner,
            commit: named.pushed.commit,
            added_at: named.pushed.added_at,
        };
        Self::put(
            Class::Placeholder,
            placeholder_key(&named.event_id, named.repo),
            named.repo.identifier.as_str(),
            json(&payload),
            named.pushed.expires_at,
        )
    }

    pub(crate) fn put_sync(identifier: &Identifier, entry: &SyncEntry) -> Self {
        let payload = SyncPayload {
            attempt_count: entry.attempt_count,
        };
        let key = identifier.as_str().to_owned();
        let payload = json(&payload);
        Self::put(
            Class::Sync,
            key,
            identifier.as_str(),
            payload,
            entry.next_attempt.unwrap_or(NEVER),
        )
    }

    pub(crate) fn remove_sync(identifier: &Identifier) -> Self {
        Self::removal(Class::Sync, identifier.as_str().to_owned())
    }

    /// The time is that of the expiry: it tells which id is forgotten first.
    pub(crate) fn put_expired(id: EventId, at: Millis) -> Self {
        Self::put(Class::Expired, id.to_hex(), "", "{}".to_owned(), at)
    }

    pub(crate) fn remove_expired(id: EventId) -> Self {
        Self::removal(Class::Expired, id.to_hex())
    }
}

fn repo_key(addr: &RepoAddr) -> String {
    format!("{}:{}", addr.owner.to_hex(), addr.identifier)
}

fn placeholder_key(id: &EventId, repo: &RepoAddr) -> String {
    format!("{}:{}", id.to_hex(), repo_key(repo))
}

impl<'a> HeldPayload<'a> {
    fn new(held: &'a Held) -> Self {
        Self {
            event: held.event.unpack(),
            origin: held.origin,
            added_at: held.added_at,
            phase: None,
            commit: None,
            identifiers: None,
        }
    }
}
