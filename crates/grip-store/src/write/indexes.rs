//! Index entries of an event, written and removed with it.

use grip_nostr::kinds::{self, Class};
use heed::PutFlags;
use nostr::prelude::{Event, EventId, Kind};

use super::WriteView;
use crate::{
    StoreError,
    keys::{self, AUTHOR_KIND_LEN, POSITION_LEN, Position, Serial},
    record::Head,
    tables::{Table, Tables},
    view::Transaction,
};

/// Room for the longest index key: author, kind, position.
const MAX_INDEX_KEY: usize = AUTHOR_KIND_LEN + POSITION_LEN;

pub(super) fn has_address(kind: u16) -> bool {
    matches!(
        kinds::class(Kind::from(kind)),
        Class::Addressable | Class::Replaceable
    )
}

impl WriteView<'_> {
    /// Adds an event that is known to be new, to every table.
    pub(super) fn insert(&mut self, event: &Event, head: &Head) -> Result<(), StoreError> {
        let serial: Serial = self.next_serial.to_be_bytes();
        self.next_serial += 1;
        head.encode(event, &mut self.buffer)?;
        let Self {
            tables,
            txn,
            buffer,
            ..
        } = self;
        // Serials only grow, so the record goes behind the last one without a search.
        tables
            .events
            .put_with_flags(txn, PutFlags::APPEND, &serial, buffer)?;
        tables.ids.put(txn, head.id(), &serial)?;
        if has_address(head.kind) {
            let key = keys::address_key(head.kind, &head.d, &head.author);
            tables.addresses.put(txn, &key, &serial)?;
        }
        if let Some(at) = head.expiration {
            let key = keys::expiration(at, head.id());
            tables.expirations.put(txn, &key, &serial)?;
        }
        let mut room = [0; 18];
        let entry = head.entry(serial);
        let entry = entry.encode(&mut room);
        each_index(tables, head, |table, key| table.put(txn, key, entry))
    }

    /// Takes an event out of every table.
    pub(super) fn take_out(&mut self, serial: &Serial) -> Result<EventId, StoreError> {
        let head = self.lookup().record(serial)?.to_head();
        let Self { tables, txn, .. } = self;
        each_index(tables, &head, |table, key| table.delete(txn, key).map(drop))?;
        if let Some(at) = head.expiration {
            let key = keys::expiration(at, head.id());
            tables.expirations.delete(txn, &key)?;
        }
        if has_address(head.kind) {
            let key = keys::address_key(head.kind, &head.d, &head.author);
            tables.addresses.delete(txn, &key)?;
        }
        tables.ids.delete(txn, head.id())?;
        tables.events.delete(txn, serial)?;
        Ok(EventId::from_byte_array(*head.id()))
    }
}

/// Names every time-ordered index key of an event.
fn each_index(
    tables: &Tables,
    head: &Head,
    mut act: impl FnMut(Table, &[u8]) -> heed::Result<()>,
) -> Result<(), StoreError> {
    let mut room = [0; MAX_INDEX_KEY];
    let mut act = |table, prefix: &[u8]| act(table, join(&mut room, prefix, &head.position));
    act(tables.by_time, &[])?;
    act(tables.by_kind, &head.kind.to_be_bytes())?;
    let author_kind = keys::author_kind(&head.author, head.kind);
    act(tables.by_author, &author_kind)?;
    for tag in &head.tags {
        act(tables.by_tag, tag)?;
    }
    Ok(())
}

fn join<'r>(room: &'r mut [u8; MAX_INDEX_KEY], prefix: &[u8], position: &Position) -> &'r [u8] {
    let end = prefix.len() + POSITION_LEN;
    room[..prefix.len()].copy_from_slice(prefix);
    room[prefix.len()..end].copy_from_slice(position);
    &room[..end]
}
