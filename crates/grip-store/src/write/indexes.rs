//! Index entries of an event, written and removed with it.

use grip_nostr::kinds::{self, Class};
use heed::PutFlags;
use nostr::prelude::{Event, EventId, Kind};

use super::WriteView;
use crate::{
    StoreError,
    changes::Which,
    keys::{self, AUTHOR_KIND_LEN, POSITION_LEN, Position, Serial},
    record::Head,
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
        let mut record = std::mem::take(&mut self.buffer);
        head.encode(event, &mut record)?;
        // Serials only grow, so the record goes behind the last one without a search.
        self.note(Which::Events, &serial, Some(&record));
        let events = self.tables.events;
        events.put_with_flags(&mut self.txn, PutFlags::APPEND, &serial, &record)?;
        self.buffer = record;
        self.set(Which::Ids, head.id(), &serial)?;
        if has_address(head.kind) {
            let key = keys::address_key(head.kind, &head.d, &head.author);
            self.set(Which::Addresses, &key, &serial)?;
        }
        if let Some(at) = head.expiration {
            let key = keys::expiration(at, head.id());
            self.set(Which::Expirations, &key, &serial)?;
        }
        let mut room = [0; 18];
        let entry = head.entry(serial);
        let entry = entry.encode(&mut room);
        each_index(head, |which, key| self.set(which, key, entry))
    }

    /// Takes an event out of every table.
    pub(super) fn take_out(&mut self, serial: &Serial) -> Result<EventId, StoreError> {
        let head = self.lookup().record(serial)?.to_head();
        each_index(&head, |which, key| self.unset(which, key))?;
        if let Some(at) = head.expiration {
            let key = keys::expiration(at, head.id());
            self.unset(Which::Expirations, &key)?;
        }
        if has_address(head.kind) {
            let key = keys::address_key(head.kind, &head.d, &head.author);
            self.unset(Which::Addresses, &key)?;
        }
        self.unset(Which::Ids, head.id())?;
        self.unset(Which::Events, serial)?;
        Ok(EventId::from_byte_array(*head.id()))
    }
}

/// Names every time-ordered index key of an event.
fn each_index(
    head: &Head,
    mut act: impl FnMut(Which, &[u8]) -> heed::Result<()>,
) -> Result<(), StoreError> {
    let mut room = [0; MAX_INDEX_KEY];
    let mut act = |which, prefix: &[u8]| act(which, join(&mut room, prefix, &head.position));
    act(Which::ByTime, &[])?;
    act(Which::ByKind, &head.kind.to_be_bytes())?;
    let author_kind = keys::author_kind(&head.author, head.kind);
    act(Which::ByAuthor, &author_kind)?;
    for tag in &head.tags {
        act(Which::ByTag, tag)?;
    }
    Ok(())
}

fn join<'r>(room: &'r mut [u8; MAX_INDEX_KEY], prefix: &[u8], position: &Position) -> &'r [u8] {
    let end = prefix.len() + POSITION_LEN;
    room[..prefix.len()].copy_from_slice(prefix);
    room[prefix.len()..end].copy_from_slice(position);
    &room[..end]
}
