//! Owners who have left, so that no older announcement brings them back.
//!
//! An owner leaves by an announcement that does not list this server, or whose own time is over. It
//! is not served, so nothing in the relay stands against a replay of the one before it. It stays
//! remembered when its owner is back: the return may be deleted, and what was before the departure comes
//! back neither by a replay nor as the version that the return replaced.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use grip_nostr::{Event, EventId, PublicKey, RepoAddr, Timestamp};
use grip_purgatory::{Change, Expired, Row};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    RepositoryStatus,
    error::GraspError,
    grasp::{Core, now},
};

/// The class of its rows in the journal.
const CLASS: &str = "departure";
/// How many are remembered; which of them go beyond it says [`Departures::make_room`].
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
        self.rank() > Self::by(event).rank()
    }

    /// Says whether `event` of the same address counts more: its owner is back.
    pub(crate) fn is_over_by(&self, event: &Event) -> bool {
        self.rank() < Self::by(event).rank()
    }

    fn rank(&self) -> (Timestamp, Reverse<EventId>) {
        (self.created_at, Reverse(self.id))
    }
}

/// What is remembered of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Remembered {
    #[serde(flatten)]
    departure: Departure,
    /// The repository had data: to get so far costs more than an event.
    #[serde(default = "yes")]
    was_served: bool,
    #[serde(skip)]
    noted: i64,
}

/// A departure that is to be remembered as soon as the journal has been told.
pub(crate) struct NotedDeparture {
    addr: RepoAddr,
    remembered: Remembered,
    /// What the journal has to be told.
    pub(crate) changes: Vec<Change>,
}

/// Of rows of before it is not known.
fn yes() -> bool {
    true
}

#[derive(Default)]
pub(crate) struct Departures {
    by_addr: Mutex<BTreeMap<RepoAddr, Remembered>>,
}

impl Departures {
    /// Takes its rows from those of the journal and leaves the others.
    pub(crate) fn restore(rows: &mut Vec<Row>) -> Self {
        let mut by_addr = BTreeMap::new();
        rows.retain(|row| {
            let ours = row.class == CLASS;
            let addr = row.key.split_once('/').filter(|_| ours);
            let addr = addr.and_then(|(npub, name)| RepoAddr::from_segments(npub, name));
            let remembered = serde_json::from_str::<Remembered>(&row.payload);
            if let (Some(addr), Ok(remembered)) = (addr, remembered) {
                let noted = row.expires_at;
                by_addr.insert(
                    addr,
                    Remembered {
                        noted,
                        ..remembered
                    },
                );
            }
            !ours
        });
        Self {
            by_addr: Mutex::new(by_addr),
        }
    }

    pub(crate) fn get(&self, addr: &RepoAddr) -> Option<Departure> {
        let by_addr = self.by_addr.lock();
        by_addr.get(addr).map(|remembered| remembered.departure)
    }

    /// What has to be forgotten for one more to be remembered, where there are `most`: of repositories that
    /// never had data before others, of the owner with the most of them, the earliest. Announcing and
    /// leaving costs two events: without that, anybody's would make the node forget everybody's. A
    /// hundredth goes at a time, so that not each of them is compared with all others.
    fn make_room(&self, most: usize) -> Vec<RepoAddr> {
        let by_addr = self.by_addr.lock();
        if by_addr.len() < most {
            return Vec::new();
        }
        let mut counts: HashMap<PublicKey, usize> = HashMap::new();
        for addr in by_addr.keys() {
            *counts.entry(addr.owner).or_default() += 1;
        }
        let mut ranked: Vec<_> = by_addr
            .iter()
            .map(|(addr, remembered)| {
                let count = Reverse(counts[&addr.owner]);
                (remembered.was_served, count, remembered.noted, addr)
            })
            .collect();
        ranked.sort_unstable();
        let first_had_data = ranked.first().is_some_and(|(had_data, ..)| *had_data);
        let going = ranked.into_iter().take((most / 100).max(1));
        let going = going.filter(|(had_data, ..)| *had_data == first_had_data);
        going.map(|(.., addr)| addr.clone()).collect()
    }

    /// What is to be remembered of a departure; nothing if a later one is.
    fn note(
        &self,
        addr: &RepoAddr,
        departure: Departure,
        is_served: bool,
    ) -> Option<NotedDeparture> {
        let known = self.by_addr.lock().get(addr).copied();
        if known.is_some_and(|known| known.departure.rank() >= departure.rank()) {
            return None;
        }
        let remembered = Remembered {
            departure,
            was_served: is_served || known.is_some_and(|known| known.was_served),
            noted: now().get(),
        };
        let mut changes = Vec::new();
        for going in self.make_room(MAX_REMEMBERED) {
            changes.push(removal(&going));
            self.by_addr.lock().remove(&going);
        }
        let payload = serde_json::to_string(&remembered).expect("plain values are always JSON");
        changes.push(Change::Put(Row {
            class: CLASS.to_owned(),
            key: addr.path(),
            identifier: addr.identifier.as_str().to_owned(),
            payload,
            expires_at: remembered.noted,
        }));
        Some(NotedDeparture {
            addr: addr.clone(),
            remembered,
            changes,
        })
    }

    /// Remembers what the journal has.
    pub(crate) fn remember(&self, noted: Option<NotedDeparture>) {
        if let Some(NotedDeparture {
            addr, remembered, ..
        }) = noted
        {
            self.by_addr.lock().insert(addr, remembered);
        }
    }

    /// Remembers the held announcements whose own time is over; returns what the journal has to be told,
    /// together with their removal.
    pub(crate) fn remember_ended(&self, expired: &[Expired]) -> Vec<Change> {
        let mut changes = Vec::new();
        for expired in expired {
            let Expired::Announcement {
                addr,
                event_id,
                created_at,
                has_ended: true,
            } = expired
            else {
                continue;
            };
            let departure = Departure {
                id: *event_id,
                created_at: *created_at,
            };
            let noted = self.note(addr, departure, false);
            changes.extend(noted.iter().flat_map(|noted| noted.changes.clone()));
            self.remember(noted);
        }
        changes
    }
}

impl Core {
    /// Remembers by which announcement an owner left, unless a later one is remembered.
    pub(crate) async fn remember_departure(
        &self,
        addr: &RepoAddr,
        event: &Event,
    ) -> Result<(), GraspError> {
        let noted = self.note_departure(addr, event);
        if let Some(noted) = &noted {
            self.write_held(noted.changes.clone()).await?;
        }
        self.departures.remember(noted);
        Ok(())
    }

    /// What is to be remembered of a departure together with what goes by it.
    pub(crate) fn note_departure(&self, addr: &RepoAddr, by: &Event) -> Option<NotedDeparture> {
        let is_served = self.hosted.status(addr) == Some(RepositoryStatus::Served);
        let departure = Departure::by(by);
        self.departures.note(addr, departure, is_served)
    }
}

fn removal(addr: &RepoAddr) -> Change {
    Change::Remove {
        class: CLASS.to_owned(),
        key: addr.path(),
    }
}

#[cfg(test)]
mod tests {
    use grip_types::Identifier;
    use nostr::prelude::Keys;

    use super::*;

    fn remembered(noted: i64, was_served: bool) -> Remembered {
        Remembered {
            departure: Departure {
                id: EventId::from_byte_array([7; 32]),
                created_at: Timestamp::from_secs(7),
            },
            was_served,
            noted,
        }
    }

    /// Whose share it is: a flood of announcements and departures makes the node forget its own.
    #[test]
    fn g01_64_a_flood_of_departures_makes_nobody_elses_forgotten() {
        let departures = Departures::default();
        let put = |owner: &Keys, name: &str, noted, was_served| {
            let identifier = Identifier::parse(name).unwrap();
            let addr = RepoAddr::new(owner.public_key(), identifier);
            let remembered = remembered(noted, was_served);
            departures.by_addr.lock().insert(addr.clone(), remembered);
            addr
        };
        let [honest, newcomer, flooder] = [(); 3].map(|()| Keys::generate());
        let kept = put(&honest, "x", 1, true);
        let young = put(&newcomer, "x", 2, false);
        let flood: Vec<RepoAddr> = (0..8)
            .map(|n| put(&flooder, &format!("s{n}"), 3 + n, false))
            .collect();
        assert!(departures.make_room(11).is_empty());
        for expected in &flood[..7] {
            assert_eq!(departures.make_room(1), std::slice::from_ref(expected));
            departures.by_addr.lock().remove(expected);
        }
        // One of each is left: what never had data goes before what had, the earliest first.
        for expected in [&young, &flood[7], &kept] {
            assert_eq!(departures.make_room(1), std::slice::from_ref(expected));
            departures.by_addr.lock().remove(expected);
        }
    }

    #[test]
    fn a_row_of_before_is_read_as_one_of_a_repository_with_data() {
        let departure = remembered(0, true).departure;
        let text = serde_json::to_string(&departure).unwrap();
        let read: Remembered = serde_json::from_str(&text).unwrap();
        assert_eq!(read, remembered(0, true));
    }
}
