//! Events with chosen ids, and a store in a temporary directory.

use std::ops::ControlFlow;

use grip_nostr::{Address, Filter};
use grip_store::{
    EventStore, EventView as _, Item, Limits, Options, Progress, Put, Query, StoreError, WriteView,
};
use nostr::prelude::{Event, EventId, Kind, PublicKey, Signature, Tag, Timestamp};
use tempfile::TempDir;

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_000_000);
pub(crate) const LIMITS: Limits = Limits {
    default_limit: 500,
    max_limit: 5_000,
};

pub(crate) struct Fixture {
    pub(crate) store: EventStore,
    pub(crate) dir: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with_map(256 << 20)
    }

    pub(crate) fn with_map(map_bytes: usize) -> Self {
        let dir = TempDir::new().unwrap();
        let store = open(&dir, map_bytes);
        Self { store, dir }
    }

    pub(crate) fn reopen(self) -> Self {
        drop(self.store);
        let store = open(&self.dir, 256 << 20);
        Self {
            store,
            dir: self.dir,
        }
    }

    pub(crate) fn put(&self, event: &Event) -> Put {
        self.store.write(|view| view.put(event, NOW)).unwrap()
    }

    pub(crate) fn ids(&self, filters: &[Filter]) -> Vec<[u8; 32]> {
        self.ids_at(filters, NOW)
    }

    pub(crate) fn ids_at(&self, filters: &[Filter], now: Timestamp) -> Vec<[u8; 32]> {
        let mut ids = Vec::new();
        let view = self.store.read().unwrap();
        view.query(filters, LIMITS, now, &mut |stored| {
            ids.push(stored.id);
            ControlFlow::Continue(())
        })
        .unwrap();
        ids
    }

    /// Runs a query to its end in slices of `steps`, each in a snapshot of its own; a slice takes
    /// three matches at most.
    pub(crate) fn run(&self, mut query: Query, now: Timestamp, steps: u64) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            let mut room = 3;
            let progress = query.run(&self.store.read().unwrap(), now, steps, &mut |found| {
                if room == 0 {
                    return Ok(false);
                }
                room -= 1;
                items.push(found.item());
                Ok(true)
            });
            if progress.unwrap() == Progress::Done {
                return items;
            }
        }
    }

    pub(crate) fn count(&self, filters: &[Filter], now: Timestamp) -> usize {
        self.run(Query::of_all(filters.to_vec()), now, u64::MAX)
            .len()
    }

    /// The first byte of every id, which the tests number their events by.
    pub(crate) fn numbers(&self, filters: &[Filter]) -> Vec<u8> {
        self.ids(filters).iter().map(|id| id[0]).collect()
    }

    pub(crate) fn all(&self) -> Vec<u8> {
        self.numbers(&[Filter::default()])
    }
}

fn open(dir: &TempDir, map_bytes: usize) -> EventStore {
    let options = Options {
        map_bytes,
        ..Options::default()
    };
    EventStore::open(dir.path(), options).unwrap()
}

pub(crate) const ALICE: u8 = 0xa1;
pub(crate) const BOB: u8 = 0xb0;

pub(crate) fn id(number: u8) -> EventId {
    EventId::from_byte_array([number; 32])
}

pub(crate) fn key(number: u8) -> PublicKey {
    PublicKey::from_byte_array([number; 32])
}

/// The store trusts its caller to have verified events, so ids may be chosen.
pub(crate) fn event(number: u8, author: u8, kind: u16, at: u64, tags: &[&[&str]]) -> Event {
    Event::new(
        id(number),
        key(author),
        Timestamp::from_secs(at),
        Kind::from(kind),
        tags.iter()
            .map(|tag| Tag::parse(tag.iter().copied()).unwrap()),
        "text with \"quotes\" and ünïcode",
        Signature::from_byte_array([7; 64]),
    )
}

pub(crate) fn address(kind: u16, author: u8, d: &str) -> Address {
    Address {
        kind: Kind::from(kind),
        author: key(author),
        d: d.to_owned(),
    }
}

pub(crate) fn stored(removed: &[u8]) -> Put {
    Put::Stored {
        removed: removed.iter().copied().map(id).collect(),
    }
}

pub(crate) fn filter(json: &str) -> Filter {
    Filter::parse(&serde_json::from_str(json).unwrap()).unwrap()
}

/// Takes out what has expired, as the owner of the store does.
pub(crate) fn sweep(
    view: &mut WriteView<'_>,
    now: Timestamp,
    max: usize,
) -> Result<Vec<EventId>, StoreError> {
    let expired: Vec<EventId> = view.expired(now, max)?.iter().map(|it| it.id).collect();
    for id in &expired {
        view.remove(id)?;
    }
    Ok(expired)
}
