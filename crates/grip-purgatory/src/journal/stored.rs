//! Reading rows back.

use grip_nostr::{EventId, RepoAddr};
use grip_types::Identifier;
use serde::Deserialize;

use super::{Class, NEVER, PlaceholderPayload, ReadRowError, Row, StoredHeld, SyncPayload};
use crate::{
    AnnouncementEntry, Held, Millis, PlaceholderRef, PrEntry, StateEntry, SyncEntry, WantedEntry,
};

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
        let at = Millis::new(row.expires_at);
        Ok(match class {
            Class::Announcement => Self::Announcement(read_announcement(row, at)?),
            Class::State => Self::State(StateEntry {
                identifier: identifier(row)?,
                held: held(&parse(row)?, at),
            }),
            Class::Pr => Self::Pr(read_pr(row, at)?),
            Class::Placeholder => {
                let payload: PlaceholderPayload = parse(row)?;
                Self::Placeholder {
                    event_id: payload.event_id,
                    repo: RepoAddr::new(payload.owner, identifier(row)?),
                    pushed: PlaceholderRef {
                        commit: payload.commit,
                        added_at: payload.added_at,
                        expires_at: at,
                    },
                }
            }
            Class::Sync => {
                let payload: SyncPayload = parse(row)?;
                let entry = SyncEntry {
                    next_attempt: (at != NEVER).then_some(at),
                    attempt_count: payload.attempt_count,
                    in_progress: false,
                    renewed: false,
                };
                Self::Sync(identifier(row)?, entry)
            }
            Class::Expired => {
                let id = EventId::from_hex(&row.key).map_err(|_| ReadRowError::Key)?;
                Self::Expired(id, at)
            }
            Class::Wanted => {
                let mut stored: StoredHeld = parse(row)?;
                let identifiers = stored.identifiers.take();
                Self::Wanted(WantedEntry {
                    identifiers: identifiers.ok_or(ReadRowError::Missing("identifiers"))?,
                    held: held(&stored, at),
                })
            }
        })
    }
}

fn parse<'a, T: Deserialize<'a>>(row: &'a Row) -> Result<T, ReadRowError> {
    Ok(serde_json::from_str(&row.payload)?)
}

fn identifier(row: &Row) -> Result<Identifier, ReadRowError> {
    Ok(Identifier::parse(&row.identifier)?)
}

fn held(stored: &StoredHeld, expires_at: Millis) -> Held {
    Held::new(&stored.event, stored.origin, stored.added_at, expires_at)
}

fn read_announcement(row: &Row, expires_at: Millis) -> Result<AnnouncementEntry, ReadRowError> {
    let stored: StoredHeld = parse(row)?;
    Ok(AnnouncementEntry {
        addr: RepoAddr::new(stored.event.pubkey, identifier(row)?),
        phase: stored.phase.ok_or(ReadRowError::Missing("phase"))?,
        held: held(&stored, expires_at),
    })
}

fn read_pr(row: &Row, expires_at: Millis) -> Result<PrEntry, ReadRowError> {
    let mut stored: StoredHeld = parse(row)?;
    let identifiers = stored.identifiers.take();
    Ok(PrEntry {
        commit: stored.commit.ok_or(ReadRowError::Missing("commit"))?,
        identifiers: identifiers.ok_or(ReadRowError::Missing("identifiers"))?,
        held: held(&stored, expires_at),
    })
}
