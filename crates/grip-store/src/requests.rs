//! Requests to delete (kind 5) and to vanish (kind 62): how long each is served, and how long it
//! refuses what it is about (G01-103).
//!
//! ```text
//! kind 2 | first seen 8 | last used 8 | JSON of a request that is not served any more
//! ```

use std::time::Duration;

use grip_nostr::kinds;
use nostr::prelude::{EventId, Kind, PublicKey, Timestamp};

use crate::{
    ReadView, StoreError, keys,
    lookup::{Lookup, parse, read_id, read_time},
    view::Transaction,
};

/// Stands for "of no use yet".
const NEVER: u64 = u64::MAX;

/// How long requests are kept, by the clock of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long one is served that has deleted and refused nothing, from when it was first seen.
    pub unused_served: Duration,
    /// How much longer it refuses what it is about.
    pub unused_gating: Duration,
    /// How long one is served after it deleted or refused something for the last time.
    pub used_served: Duration,
    /// How much longer it refuses what it is about.
    pub used_gating: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

impl Default for Retention {
    /// The spans of ngit-grasp 3.
    fn default() -> Self {
        Self {
            unused_served: DAY * 30,
            unused_gating: DAY * 180,
            used_served: DAY * 270,
            used_gating: DAY * 90,
        }
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Served,
    /// It only refuses.
    Gating,
    Over,
}

impl Retention {
    pub(crate) fn stage(&self, row: &RequestRow<'_>, now: Timestamp) -> Stage {
        let (from, served, gating) = match row.last_used {
            Some(used) => (used, self.used_served, self.used_gating),
            None => (row.first_seen, self.unused_served, self.unused_gating),
        };
        let served = from.saturating_add(served.as_secs());
        if now.as_secs() < served {
            Stage::Served
        } else if now.as_secs() < served.saturating_add(gating.as_secs()) {
            Stage::Gating
        } else {
            Stage::Over
        }
    }
}

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestRow<'t> {
    pub(crate) kind: u16,
    pub(crate) first_seen: u64,
    pub(crate) last_used: Option<u64>,
    /// Empty while it is served: then the event is among the others.
    pub(crate) json: &'t [u8],
}

impl<'t> RequestRow<'t> {
    pub(crate) fn decode(bytes: &'t [u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Corrupt("a request is cut short");
        let (kind, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let (first_seen, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (last_used, json) = rest.split_first_chunk().ok_or_else(damaged)?;
        Ok(Self {
            kind: u16::from_be_bytes(*kind),
            first_seen: u64::from_be_bytes(*first_seen),
            last_used: Some(u64::from_be_bytes(*last_used)).filter(|at| *at != NEVER),
            json,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [
            &self.kind.to_be_bytes()[..],
            &self.first_seen.to_be_bytes(),
            &self.last_used.unwrap_or(NEVER).to_be_bytes(),
            self.json,
        ]
        .concat()
    }

    pub(crate) fn is_served(&self) -> bool {
        self.json.is_empty()
    }
}

/// How many requests there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    pub served: u64,
    /// They are not served any more, and still refuse what they are about.
    pub gating: u64,
}

/// A key that has asked to vanish, and has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vanished {
    pub author: PublicKey,
    /// Events up to this time go.
    pub until: Timestamp,
    pub request: EventId,
}

impl ReadView<'_> {
    /// Up to `max` requests that have come further than they are noted to be.
    pub fn requests_due(
        &self,
        now: Timestamp,
        retention: &Retention,
        max: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        let Lookup { tables, txn } = self.lookup();
        let mut due = Vec::new();
        for found in tables.requests.iter(txn)? {
            let (id, row) = found?;
            let row = RequestRow::decode(row)?;
            let is_due = match retention.stage(&row, now) {
                Stage::Served => false,
                Stage::Gating => row.is_served(),
                Stage::Over => true,
            };
            if is_due {
                due.push(read_id(id)?);
            }
            if due.len() >= max {
                break;
            }
        }
        Ok(due)
    }

    pub fn request_counts(&self) -> Result<RequestCounts, StoreError> {
        let Lookup { tables, txn } = self.lookup();
        let mut counts = RequestCounts::default();
        for found in tables.requests.iter(txn)? {
            if RequestRow::decode(found?.1)?.is_served() {
                counts.served += 1;
            } else {
                counts.gating += 1;
            }
        }
        Ok(counts)
    }

    /// Says whether a key has asked this server to vanish, and that is not carried out yet.
    pub fn is_vanishing(&self, author: &PublicKey) -> Result<bool, StoreError> {
        let lookup = self.lookup();
        let prefix = keys::vanishing_author(author.as_bytes());
        let mut found = lookup.tables.targets.prefix_iter(lookup.txn, &prefix)?;
        Ok(found.next().transpose()?.is_some())
    }

    /// Says whether a key has asked this server to vanish with what it made at a time, carried out or not.
    pub fn has_vanished(&self, author: &PublicKey, at: Timestamp) -> Result<bool, StoreError> {
        let lookup = self.lookup();
        let prefix = keys::target_author(author.as_bytes());
        for found in lookup.tables.targets.prefix_iter(lookup.txn, &prefix)? {
            if read_time(found?.1)? >= at.as_secs() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The requests to vanish that are not carried out yet.
    pub fn vanishing(&self) -> Result<Vec<Vanished>, StoreError> {
        let lookup = self.lookup();
        let mut all = Vec::new();
        let pending = lookup.tables.targets;
        for found in pending.prefix_iter(lookup.txn, &keys::VANISHING[..])? {
            let (key, until) = found?;
            let damaged = || StoreError::Corrupt("a key that vanished cannot be read");
            let (author, request) = key[1..].split_first_chunk().ok_or_else(damaged)?;
            let until = until.try_into().map_err(|_| damaged())?;
            all.push(Vanished {
                author: PublicKey::from_byte_array(*author),
                until: Timestamp::from_secs(u64::from_be_bytes(until)),
                request: read_id(request)?,
            });
        }
        Ok(all)
    }
}

impl Lookup<'_> {
    /// A request, served or not.
    pub(crate) fn request_event(
        &self,
        id: &EventId,
    ) -> Result<Option<nostr::prelude::Event>, StoreError> {
        let Some(row) = self.request(id)? else {
            return Ok(None);
        };
        if row.is_served() {
            let serial = self.serial_of(id.as_bytes())?;
            return serial.map(|it| parse(self.record(&it)?)).transpose();
        }
        let damaged = |_| StoreError::Corrupt("a request cannot be read");
        serde_json::from_slice(row.json).map(Some).map_err(damaged)
    }
}

pub(crate) fn is_request(kind: u16) -> bool {
    kinds::is_request(Kind::from(kind))
}
