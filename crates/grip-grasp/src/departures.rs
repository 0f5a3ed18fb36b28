//! Owners who have left, so that no older announcement brings them back.
//!
//! An owner leaves by an announcement that does not list this server, or whose own time is over. It
//! is not served, so nothing in the relay stands against a replay of the one before it.

use std::collections::BTreeMap;

use grip_nostr::{Event, EventId, RepoAddr, Timestamp};
use grip_purgatory::{Change, Millis, Row};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    error::GraspError,
    grasp::{Core, now},
};

/// The class of its rows in the journal.
const CLASS: &str = "departure";
/// How many are remembered. Beyond it the one that was noted first goes: each cost its owner an
/// announcement that was taken here.
const MAX_REMEMBERED: usize = 20_000;

/// The announcement by which an owner left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Departure {
    pub(crate) id: EventId,
    pub(crate) created_at: Timestamp,
}

impl Departure {
    pub(crate) fn by(event: &Event) -> Self {
        Self {
            id: event.id,
            created_at: event.created_at,
        }
    }

    /// Says whether it counts more than `event` of the same address (NIP-01).
    pub(crate) fn supersedes(&self, event: &Event) -> bool {
        self.created_at > event.created_at
            || (self.created_at == event.created_at && self.id < event.id)
    }
}

#[derive(Default)]
pub(crate) struct Departures {
    by_addr: Mutex<BTreeMap<RepoAddr, (Millis, Departure)>>,
}

impl Departures {
    /// Takes its rows from those of the journal and leaves the others.
    pub(crate) fn restore(rows: &mut Vec<Row>) -> Self {
        let mut by_addr = BTreeMap::new();
        rows.retain(|row| {
            let ours = row.class == CLASS;
            let addr = row.key.split_once('/').filter(|_| ours);
            let addr = addr.and_then(|(npub, name)| RepoAddr::from_segments(npub, name));
            let departure = serde_json::from_str(&row.payload);
            if let (Some(addr), Ok(departure)) = (addr, departure) {
                by_addr.insert(addr, (Millis::new(row.expires_at), departure));
            }
            !ours
        });
        Self {
            by_addr: Mutex::new(by_addr),
        }
    }

    pub(crate) fn get(&self, addr: &RepoAddr) -> Option<Departure> {
        self.by_addr
            .lock()
            .get(addr)
            .map(|(_, departure)| *departure)
    }

    /// What has to be forgotten for one more to be remembered.
    fn make_room(&self) -> Option<RepoAddr> {
        let by_addr = self.by_addr.lock();
        let first = by_addr.iter().min_by_key(|(_, (noted, _))| *noted);
        let first = first.filter(|_| by_addr.len() >= MAX_REMEMBERED);
        first.map(|(addr, _)| addr.clone())
    }
}

impl Core {
    /// Remembers by which announcement an owner left, unless a later one is remembered.
    pub(crate) async fn remember_departure(
        &self,
        addr: &RepoAddr,
        event: &Event,
    ) -> Result<(), GraspError> {
        let known = self.departures.get(addr);
        let departure = Departure::by(event);
        if known.is_some_and(|known| known == departure || known.supersedes(event)) {
            return Ok(());
        }
        let mut changes = Vec::new();
        if let Some(first) = self.departures.make_room() {
            changes.push(removal(&first));
            self.departures.by_addr.lock().remove(&first);
        }
        let noted = now();
        let payload = serde_json::to_string(&departure).expect("plain values are always JSON");
        changes.push(Change::Put(Row {
            class: CLASS.to_owned(),
            key: addr.path(),
            identifier: addr.identifier.as_str().to_owned(),
            payload,
            expires_at: noted.get(),
        }));
        self.write_held(changes).await?;
        let mut by_addr = self.departures.by_addr.lock();
        by_addr.insert(addr.clone(), (noted, departure));
        Ok(())
    }

    /// The owner is back with a later announcement.
    pub(crate) async fn forget_departure(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        if self.departures.get(addr).is_some() {
            self.write_held(vec![removal(addr)]).await?;
            self.departures.by_addr.lock().remove(addr);
        }
        Ok(())
    }
}

fn removal(addr: &RepoAddr) -> Change {
    Change::Remove {
        class: CLASS.to_owned(),
        key: addr.path(),
    }
}
