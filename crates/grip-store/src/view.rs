//! Snapshots, and the lookups of both kinds of transaction.

mod encoded;

use std::ops::ControlFlow;

use grip_nostr::{Address, Filter};
use heed::{RoTxn, WithoutTls};
use nostr::prelude::{Event, EventId, Kind, PublicKey, Timestamp};

use crate::{
    Limits, Match, Query, StoreError, keys, lookup::Lookup, record::Record, tables::Tables,
};

/// Look-ups by name. Expired events are found until they are swept.
pub trait EventView {
    fn contains(&self, id: &EventId) -> Result<bool, StoreError>;

    fn get(&self, id: &EventId) -> Result<Option<Event>, StoreError>;

    /// At most `max` events whose ids begin with these hex digits, in lower case.
    fn beginning_with(&self, hex: &str, max: usize) -> Result<Vec<EventId>, StoreError>;

    /// The kind of an event, of which no more than the head is read.
    fn kind(&self, id: &EventId) -> Result<Option<Kind>, StoreError>;

    /// Says whether there is an event of this address, without reading it.
    fn contains_address(&self, address: &Address) -> Result<bool, StoreError>;

    /// The version of a replaceable or addressable event that is served.
    fn latest(&self, address: &Address) -> Result<Option<Event>, StoreError>;

    /// The id of the same, of which no more than the head is read.
    fn latest_id(&self, address: &Address) -> Result<Option<EventId>, StoreError>;

    /// The served version of each author, ordered by author.
    fn with_d(&self, kind: Kind, d: &str) -> Result<Vec<Event>, StoreError>;

    /// The ids of the same, of which no more than the heads are read.
    fn ids_with_d(&self, kind: Kind, d: &str) -> Result<Vec<EventId>, StoreError>;

    /// Says whether some event tags the id by `e`, `E` or `q`, other than those of the kinds `idle`.
    fn is_referenced(&self, id: &EventId, idle: &[Kind]) -> Result<bool, StoreError>;

    /// The same of an address by `a`, `A` or `q`.
    fn is_address_referenced(&self, address: &Address, idle: &[Kind]) -> Result<bool, StoreError>;

    /// Bytes of all events of one author and kind, counted up to `most`.
    fn stored_bytes(
        &self,
        author: &PublicKey,
        kind: Kind,
        most: usize,
    ) -> Result<usize, StoreError>;

    /// Ids of the events of one author and kind, at most `max`, the newest.
    fn ids_of(
        &self,
        author: &PublicKey,
        kind: Kind,
        max: usize,
    ) -> Result<Vec<EventId>, StoreError>;

    /// Says whether a request is known that is not served any more.
    fn is_request_retired(&self, id: &EventId) -> Result<bool, StoreError>;

    /// The versions of an address that later ones replaced, the latest first.
    fn history(&self, address: &Address) -> Result<Vec<Event>, StoreError>;

    /// At most `max` replaced versions whose ids begin with these hex digits, in lower case. Reads the keys of
    /// all that were replaced.
    fn replaced_beginning_with(&self, hex: &str, max: usize) -> Result<Vec<Event>, StoreError>;

    /// The request that forbids the event, stored or not.
    fn deletion_of(&self, event: &Event) -> Result<Option<EventId>, StoreError>;

    /// At most `max` events whose time is over, the longest expired first. They are here until
    /// somebody takes them out.
    fn expired(&self, now: Timestamp, max: usize) -> Result<Vec<Event>, StoreError>;
}

/// A transaction that [`EventView`] is answered from.
pub(crate) trait Transaction {
    fn lookup(&self) -> Lookup<'_>;
}

impl<T: Transaction> EventView for T {
    fn contains(&self, id: &EventId) -> Result<bool, StoreError> {
        self.lookup().contains(id)
    }

    fn get(&self, id: &EventId) -> Result<Option<Event>, StoreError> {
        let lookup = self.lookup();
        lookup.event(lookup.serial_of(id.as_bytes())?)
    }

    fn beginning_with(&self, hex: &str, max: usize) -> Result<Vec<EventId>, StoreError> {
        self.lookup().beginning_with(hex, max)
    }

    fn kind(&self, id: &EventId) -> Result<Option<Kind>, StoreError> {
        let lookup = self.lookup();
        let Some(serial) = lookup.serial_of(id.as_bytes())? else {
            return Ok(None);
        };
        Ok(Some(Kind::from(lookup.record(&serial)?.kind())))
    }

    fn contains_address(&self, address: &Address) -> Result<bool, StoreError> {
        let lookup = self.lookup();
        let key = keys::address_key_of(address);
        Ok(lookup.serial_in(lookup.tables.addresses, &key)?.is_some())
    }

    fn latest(&self, address: &Address) -> Result<Option<Event>, StoreError> {
        let lookup = self.lookup();
        let key = keys::address_key_of(address);
        lookup.event(lookup.serial_in(lookup.tables.addresses, &key)?)
    }

    fn latest_id(&self, address: &Address) -> Result<Option<EventId>, StoreError> {
        let lookup = self.lookup();
        let key = keys::address_key_of(address);
        let Some(serial) = lookup.serial_in(lookup.tables.addresses, &key)? else {
            return Ok(None);
        };
        let record = lookup.record(&serial)?;
        Ok(Some(EventId::from_byte_array(*record.id())))
    }

    fn with_d(&self, kind: Kind, d: &str) -> Result<Vec<Event>, StoreError> {
        self.lookup().with_d(kind, d)
    }

    fn ids_with_d(&self, kind: Kind, d: &str) -> Result<Vec<EventId>, StoreError> {
        self.lookup().ids_with_d(kind, d)
    }

    fn is_referenced(&self, id: &EventId, idle: &[Kind]) -> Result<bool, StoreError> {
        self.lookup().is_tagged(b"eEq", &id.to_hex(), idle)
    }

    fn is_address_referenced(&self, address: &Address, idle: &[Kind]) -> Result<bool, StoreError> {
        self.lookup().is_tagged(b"aAq", &address.to_string(), idle)
    }

    fn stored_bytes(
        &self,
        author: &PublicKey,
        kind: Kind,
        most: usize,
    ) -> Result<usize, StoreError> {
        self.lookup()
            .stored_bytes(author.as_bytes(), kind.as_u16(), most)
    }

    fn ids_of(
        &self,
        author: &PublicKey,
        kind: Kind,
        max: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        self.lookup().ids_of(author.as_bytes(), kind.as_u16(), max)
    }

    fn is_request_retired(&self, id: &EventId) -> Result<bool, StoreError> {
        let row = self.lookup().request(id)?;
        Ok(row.is_some_and(|row| !row.is_served()))
    }

    fn history(&self, address: &Address) -> Result<Vec<Event>, StoreError> {
        self.lookup().history(&keys::address_key_of(address))
    }

    fn replaced_beginning_with(&self, hex: &str, max: usize) -> Result<Vec<Event>, StoreError> {
        self.lookup().replaced_beginning_with(hex, max)
    }

    fn deletion_of(&self, event: &Event) -> Result<Option<EventId>, StoreError> {
        self.lookup().deletion_of(event)
    }

    fn expired(&self, now: Timestamp, max: usize) -> Result<Vec<Event>, StoreError> {
        self.lookup().expired(now.as_secs(), max)
    }
}

/// A snapshot. It may move between threads.
pub struct ReadView<'s> {
    tables: Tables,
    txn: RoTxn<'s, WithoutTls>,
}

/// An event as it lies in the store; `json` goes to clients as it is.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    pub json: &'a [u8],
    pub id: [u8; 32],
    pub author: [u8; 32],
    pub kind: u16,
    pub created_at: u64,
}

/// `created_at` and id, which is all that set reconciliation compares.
pub type Item = (u64, [u8; 32]);

impl Transaction for ReadView<'_> {
    fn lookup(&self) -> Lookup<'_> {
        Lookup {
            tables: self.tables,
            txn: &self.txn,
        }
    }
}

impl<'s> ReadView<'s> {
    pub(crate) fn new(tables: Tables, txn: RoTxn<'s, WithoutTls>) -> Self {
        Self { tables, txn }
    }

    /// Hands every match to `each` until it breaks off: newest first, ties lowest id first, each
    /// event once over all filters, at most the limit of each filter, expired ones left out.
    pub fn query(
        &self,
        filters: &[Filter],
        limits: Limits,
        now: Timestamp,
        each: &mut dyn FnMut(&Stored<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut query = Query::new(filters.to_vec(), limits);
        let mut hand = |found: &Match<'_>| Ok(each(&found.read()?).is_continue());
        query.run(self, now, u64::MAX, &mut hand)?;
        Ok(())
    }
}

pub(crate) fn stored(record: Record<'_>) -> Stored<'_> {
    Stored {
        json: record.json(),
        id: *record.id(),
        author: record.author(),
        kind: record.kind(),
        created_at: record.created_at(),
    }
}
