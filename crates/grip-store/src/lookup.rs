//! Lookups by id and address, in both kinds of transaction.

use std::ops::Bound;

use grip_nostr::{address_of, kinds};
use heed::RoTxn;
use nostr::prelude::{Event, EventId, Kind};

use crate::{
    StoreError,
    keys::{self, Serial},
    record::Record,
    requests::RequestRow,
    tables::{Table, Tables},
};

/// Requests that name the same target and are compared: more say the same.
const MAX_REQUESTS: usize = 64;
/// Events that name another and are looked at before it counts as unnamed.
const MAX_REFERRERS: usize = 1_000;

/// The tables as one transaction sees them.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'t> {
    pub(crate) tables: Tables,
    pub(crate) txn: &'t RoTxn<'t>,
}

impl<'t> Lookup<'t> {
    pub(crate) fn serial_of(&self, id: &[u8; 32]) -> Result<Option<Serial>, StoreError> {
        self.serial_in(self.tables.ids, id)
    }

    pub(crate) fn serial_in(&self, table: Table, key: &[u8]) -> Result<Option<Serial>, StoreError> {
        table.get(self.txn, key)?.map(read_serial).transpose()
    }

    pub(crate) fn record(&self, serial: &Serial) -> Result<Record<'t>, StoreError> {
        let bytes = self.tables.events.get(self.txn, serial)?;
        let missing = || StoreError::Corrupt("an index names a missing event");
        Record::decode(bytes.ok_or_else(missing)?)
    }

    pub(crate) fn contains(&self, id: &EventId) -> Result<bool, StoreError> {
        Ok(self.serial_of(id.as_bytes())?.is_some())
    }

    pub(crate) fn with_d(&self, kind: Kind, d: &str) -> Result<Vec<Event>, StoreError> {
        self.each_with_d(kind, d, parse)
    }

    pub(crate) fn ids_with_d(&self, kind: Kind, d: &str) -> Result<Vec<EventId>, StoreError> {
        self.each_with_d(kind, d, |record| Ok(EventId::from_byte_array(*record.id())))
    }

    fn each_with_d<T>(
        &self,
        kind: Kind,
        d: &str,
        read: impl Fn(Record<'t>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let prefix = keys::kind_and_d(kind.as_u16(), &keys::digest(d));
        let mut found = Vec::new();
        for entry in self.tables.addresses.prefix_iter(self.txn, &prefix)? {
            let (_, serial) = entry?;
            found.push(read(self.record(&read_serial(serial)?)?)?);
        }
        Ok(found)
    }

    /// At most `max` ids that begin with these hex digits, in lower case.
    pub(crate) fn beginning_with(&self, hex: &str, max: usize) -> Result<Vec<EventId>, StoreError> {
        let Ok(first) = EventId::from_hex(&format!("{hex:0<64}")) else {
            return Ok(Vec::new());
        };
        let range = (Bound::Included(&first.as_bytes()[..]), Bound::Unbounded);
        let mut found = Vec::new();
        for entry in self.tables.ids.range(self.txn, &range)? {
            let id = read_id(entry?.0)?;
            if found.len() == max || !id.to_hex().starts_with(hex) {
                break;
            }
            found.push(id);
        }
        Ok(found)
    }

    pub(crate) fn expired(&self, now: u64, max: usize) -> Result<Vec<Event>, StoreError> {
        let last = keys::expiration(now, &[0xff; 32]);
        let range = (Bound::Unbounded, Bound::Included(&last[..]));
        let due = self.tables.expirations.range(self.txn, &range)?;
        due.take(max)
            .map(|found| parse(self.record(&read_serial(found?.1)?)?))
            .collect()
    }

    pub(crate) fn deletion_of(&self, event: &Event) -> Result<Option<EventId>, StoreError> {
        if event.kind == kinds::VANISH {
            return Ok(None);
        }
        let author = event.pubkey.as_bytes();
        let mut prefixes = vec![keys::target_author(author)];
        if event.kind != kinds::DELETION {
            prefixes.push(keys::target_id(event.id.as_bytes(), author));
            let address = address_of(event);
            prefixes.extend(address.map(|it| keys::target_address(&keys::address_key_of(&it))));
        }
        let mut credited = None;
        for prefix in prefixes {
            let found = self.tables.targets.prefix_iter(self.txn, &prefix)?;
            for target in found.take(MAX_REQUESTS) {
                let (key, until) = target?;
                if read_time(until)? < event.created_at.as_secs() {
                    continue;
                }
                let id = read_id(&key[prefix.len()..])?;
                let row = self.request(&id)?.ok_or(StoreError::Corrupt(
                    "what is to be deleted names no request",
                ))?;
                // One that was of use before, else the one seen first (G01-115).
                let rank = (row.last_used.is_none(), row.first_seen, id);
                credited = credited.into_iter().chain([rank]).min();
            }
        }
        Ok(credited.map(|(_, _, id)| id))
    }

    pub(crate) fn request(&self, id: &EventId) -> Result<Option<RequestRow<'t>>, StoreError> {
        let row = self.tables.requests.get(self.txn, id.as_bytes())?;
        row.map(RequestRow::decode).transpose()
    }

    /// The versions of an address that others replaced, the latest first.
    pub(crate) fn history(&self, address: &keys::AddressKey) -> Result<Vec<Event>, StoreError> {
        let prefix = keys::history(address);
        let found = self.tables.history.prefix_iter(self.txn, &prefix)?;
        found
            .map(|found| parse(Record::decode(found?.1)?))
            .collect()
    }

    /// At most `max` versions of any address that others replaced and whose ids begin with these hex digits.
    pub(crate) fn replaced_beginning_with(
        &self,
        hex: &str,
        max: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let mut found = Vec::new();
        for entry in self.tables.history.iter(self.txn)? {
            let (key, record) = entry?;
            let id = key
                .last_chunk::<32>()
                .map(|id| EventId::from_byte_array(*id));
            let id = id.ok_or(StoreError::Corrupt("a position has the wrong length"))?;
            if id.to_hex().starts_with(hex) {
                found.push(parse(Record::decode(record)?)?);
            }
            if found.len() == max {
                break;
            }
        }
        Ok(found)
    }

    pub(crate) fn event(&self, serial: Option<Serial>) -> Result<Option<Event>, StoreError> {
        serial
            .map(|serial| parse(self.record(&serial)?))
            .transpose()
    }

    /// Says whether an event tags a value by one of these letters, other than one of the kinds `idle`.
    pub(crate) fn is_tagged(
        &self,
        letters: &[u8],
        value: &str,
        idle: &[Kind],
    ) -> Result<bool, StoreError> {
        let digest = keys::digest(value);
        for letter in letters {
            let prefix = keys::tag_key(*letter, &digest);
            let found = self.tables.by_tag.prefix_iter(self.txn, &prefix)?;
            for found in found.take(MAX_REFERRERS) {
                let entry = keys::Entry::decode(found?.1)?;
                if !idle.iter().any(|kind| kind.as_u16() == entry.kind) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    pub(crate) fn stored_bytes(
        &self,
        author: &[u8; 32],
        kind: u16,
        most: usize,
    ) -> Result<usize, StoreError> {
        let prefix = keys::author_kind(author, kind);
        let mut bytes = 0;
        for found in self.tables.by_author.prefix_iter(self.txn, &prefix)? {
            let entry = keys::Entry::decode(found?.1)?;
            let record = self.tables.events.get(self.txn, &entry.serial)?;
            bytes += record.map_or(0, <[u8]>::len);
            if bytes >= most {
                return Ok(most);
            }
        }
        Ok(bytes)
    }

    pub(crate) fn ids_of(
        &self,
        author: &[u8; 32],
        kind: u16,
        max: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        let prefix = keys::author_kind(author, kind);
        let mut ids = Vec::new();
        for found in self
            .tables
            .by_author
            .prefix_iter(self.txn, &prefix)?
            .take(max)
        {
            let id = found?.0.last_chunk();
            let id = id.ok_or(StoreError::Corrupt("a position has the wrong length"))?;
            ids.push(EventId::from_byte_array(*id));
        }
        Ok(ids)
    }
}

pub(crate) fn read_serial(bytes: &[u8]) -> Result<Serial, StoreError> {
    bytes
        .try_into()
        .map_err(|_| StoreError::Corrupt("a serial number has the wrong length"))
}

pub(crate) fn read_time(bytes: &[u8]) -> Result<u64, StoreError> {
    let bytes = bytes.try_into();
    bytes
        .map(u64::from_be_bytes)
        .map_err(|_| StoreError::Corrupt("a time has the wrong length"))
}

pub(crate) fn read_id(bytes: &[u8]) -> Result<EventId, StoreError> {
    EventId::from_slice(bytes).map_err(|_| StoreError::Corrupt("an id has the wrong length"))
}

pub(crate) fn parse(record: Record<'_>) -> Result<Event, StoreError> {
    Event::from_json(record.json())
        .map_err(|_| StoreError::Corrupt("a stored event cannot be read"))
}
