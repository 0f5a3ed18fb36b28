//! Kind 5: what a request to delete does (NIP-09).
//!
//! Tombstones are written whether or not the target is here, so that the request also works on what
//! arrives later. They outlive the request: an id by its author is gone for good, an address up to
//! the time of the latest request.

use grip_nostr::{Address, Deletion, kinds};
use nostr::prelude::{Event, EventId};

use super::{WriteView, indexes::has_address};
use crate::{StoreError, keys, view::Transaction};

impl WriteView<'_> {
    pub(super) fn delete_targets(
        &mut self,
        request: &Event,
        removed: &mut Vec<EventId>,
    ) -> Result<(), StoreError> {
        let Some(deletion) = Deletion::parse(request.clone()) else {
            return Ok(());
        };
        for id in &deletion.ids {
            removed.extend(self.delete_id(id, request)?);
        }
        for address in &deletion.addresses {
            removed.extend(self.delete_address(address, request)?);
        }
        Ok(())
    }

    fn delete_id(&mut self, id: &EventId, request: &Event) -> Result<Option<EventId>, StoreError> {
        let author = request.pubkey.as_bytes();
        let serial = self.lookup().serial_of(id.as_bytes())?;
        if let Some(serial) = &serial {
            let target = self.lookup().record(serial)?;
            let is_request = target.kind() == kinds::DELETION.as_u16();
            if target.author() != *author || is_request {
                return Ok(None);
            }
        }
        let key = keys::deleted_id(id.as_bytes(), author);
        if self.tables.deleted_ids.get(&self.txn, &key)?.is_none() {
            self.set(|tables| tables.deleted_ids, &key, request.id.as_bytes())?;
        }
        serial.map(|serial| self.take_out(&serial)).transpose()
    }

    fn delete_address(
        &mut self,
        address: &Address,
        request: &Event,
    ) -> Result<Option<EventId>, StoreError> {
        if !has_address(address.kind.as_u16()) {
            return Ok(None);
        }
        let key = keys::address_key_of(address);
        let until = request.created_at.as_secs();
        let known = self.lookup().deleted_until(&key)?;
        if known.is_none_or(|(known, _)| known < until) {
            let value = [&until.to_be_bytes()[..], request.id.as_bytes()].concat();
            self.set(|tables| tables.deleted_addresses, &key, &value)?;
        }
        let lookup = self.lookup();
        let Some(serial) = lookup.serial_in(self.tables.addresses, &key)? else {
            return Ok(None);
        };
        if lookup.record(&serial)?.created_at() > until {
            return Ok(None);
        }
        self.take_out(&serial).map(Some)
    }
}
