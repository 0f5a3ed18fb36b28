//! Requests to delete and to vanish (NIP-09, NIP-62): what they do, and how they end.
//!
//! What a request is about is noted whether or not it is here, so that the request also works on what
//! arrives later, until it is forgotten.

use grip_nostr::{Address, Deletion, kinds};
use heed::RwTxn;
use nostr::prelude::{Event, EventId, Timestamp};

use super::{Put, WriteView, indexes::has_address};
use crate::{
    StoreError,
    changes::Which,
    keys,
    record::Record,
    requests::{RequestRow, Retention, Stage, Vanished, is_request},
    tables::Tables,
    view::Transaction,
};

/// What became of requests whose time had come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aged {
    /// Not served any more.
    pub retired: usize,
    /// What they were about is admissible again.
    pub forgotten: usize,
}

impl WriteView<'_> {
    /// Stores a request to vanish that is meant for this server: from now on nothing is taken of its
    /// author that was made before it. To take out what is here is the caller's part, and the request
    /// is among [`crate::ReadView::vanishing`] until [`Self::end_vanishing`] says that this is done.
    pub fn put_vanish(&mut self, event: &Event, now: Timestamp) -> Result<Put, StoreError> {
        let put = self.put(event, now)?;
        if matches!(put, Put::Stored { .. } | Put::Duplicate) {
            self.guarded(|view| {
                let target = keys::target_author(event.pubkey.as_bytes());
                let key = [&target[..], event.id.as_bytes()].concat();
                // A replay is not carried out again: what is here now is newer.
                if view.tables.targets.get(&view.txn, &key)?.is_some() {
                    return Ok(());
                }
                let until = event.created_at.as_secs();
                view.note_target(&target, &event.id, until)?;
                let pending = keys::vanishing_author(event.pubkey.as_bytes());
                view.note_target(&pending, &event.id, until)
            })?;
        }
        Ok(put)
    }

    /// Nothing is left of what a request to vanish takes out.
    pub fn end_vanishing(&mut self, vanished: &Vanished) -> Result<(), StoreError> {
        let pending = keys::vanishing_author(vanished.author.as_bytes());
        let key = [&pending[..], vanished.request.as_bytes()].concat();
        self.guarded(|view| Ok(view.unset(Which::Targets, &key)?))
    }

    /// Notes that requests were of use: their time begins again, and those that were not served any
    /// more are.
    pub fn use_requests(&mut self, ids: &[EventId], now: Timestamp) -> Result<(), StoreError> {
        self.guarded(|view| ids.iter().try_for_each(|id| view.use_request(id, now)))
    }

    /// Gives a request the times that another server has seen and used it; says whether that changed
    /// anything. What this server knows of its use counts more.
    pub fn backdate_request(
        &mut self,
        id: &EventId,
        first_seen: Timestamp,
        last_used: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        self.guarded(|view| {
            let Some(row) = view.lookup().request(id)? else {
                return Ok(false);
            };
            let dated = RequestRow {
                first_seen: row.first_seen.min(first_seen.as_secs()),
                last_used: row.last_used.or(last_used.map(|at| at.as_secs())),
                ..row
            };
            let (before, after) = (row.encode(), dated.encode());
            if before != after {
                view.set(Which::Requests, id.as_bytes(), &after)?;
            }
            Ok(before != after)
        })
    }

    /// Brings requests to where they have come by now.
    pub fn age_requests(
        &mut self,
        ids: &[EventId],
        now: Timestamp,
        retention: &Retention,
    ) -> Result<Aged, StoreError> {
        self.guarded(|view| {
            let mut aged = Aged::default();
            for id in ids {
                let Some(row) = view.lookup().request(id)? else {
                    continue;
                };
                match retention.stage(&row, now) {
                    Stage::Gating if row.is_served() => {
                        view.retire_request(id)?;
                        aged.retired += 1;
                    }
                    Stage::Over => {
                        view.forget_request(id)?;
                        aged.forgotten += 1;
                    }
                    _ => {}
                }
            }
            Ok(aged)
        })
    }

    /// Forgets the versions of an author up to a time that others replaced, and the deletion requests
    /// of that time: a request to vanish says it all.
    pub fn forget_author(
        &mut self,
        author: &nostr::prelude::PublicKey,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.guarded(|view| {
            view.forget_versions(author.as_bytes(), until.as_secs())?;
            let prefix = keys::author_kind(author.as_bytes(), kinds::DELETION.as_u16());
            let mut ids = Vec::new();
            for found in view.tables.by_author.prefix_iter(&view.txn, &prefix)? {
                let (key, _) = found?;
                let position: keys::Position = key[prefix.len()..]
                    .try_into()
                    .map_err(|_| StoreError::Corrupt("an index key is cut short"))?;
                if keys::created_at_of(&position) <= until.as_secs() {
                    ids.push(EventId::from_byte_array(*keys::id_of(&position)));
                }
            }
            ids.iter().try_for_each(|id| view.forget_request(id))
        })
    }

    pub(super) fn note_request(
        &mut self,
        request: &Event,
        is_used: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let row = RequestRow {
            kind: request.kind.as_u16(),
            first_seen: now.as_secs(),
            last_used: is_used.then_some(now.as_secs()),
            json: &[],
        };
        let key = request.id.as_bytes();
        Ok(self.set(Which::Requests, key, &row.encode())?)
    }

    pub(super) fn delete_targets(
        &mut self,
        request: &Event,
        now: Timestamp,
        removed: &mut Vec<EventId>,
    ) -> Result<(), StoreError> {
        let Some(deletion) = Deletion::parse(request.clone()) else {
            return Ok(());
        };
        // All of them first: no version that goes comes back for one that goes, too.
        for target in targets_of(request) {
            self.note_target(&target, &request.id, until(&target, request))?;
        }
        if self.ignores_deletions {
            return Ok(());
        }
        for id in &deletion.ids {
            removed.extend(self.delete_id(id, request, now)?);
        }
        for address in &deletion.addresses {
            removed.extend(self.delete_address(address, request)?);
        }
        Ok(())
    }

    fn note_target(
        &mut self,
        target: &[u8],
        request: &EventId,
        until: u64,
    ) -> Result<(), StoreError> {
        let key = [target, request.as_bytes()].concat();
        Ok(self.set(Which::Targets, &key, &until.to_be_bytes())?)
    }

    fn delete_id(
        &mut self,
        id: &EventId,
        request: &Event,
        now: Timestamp,
    ) -> Result<Option<EventId>, StoreError> {
        let Some(serial) = self.lookup().serial_of(id.as_bytes())? else {
            return Ok(None);
        };
        let target = self.lookup().record(&serial)?;
        if target.author() != *request.pubkey.as_bytes() || is_request(target.kind()) {
            return Ok(None);
        }
        let head = target.to_head();
        let removed = self.take_out(&serial)?;
        self.restore_version(&head, now)?;
        Ok(Some(removed))
    }

    fn delete_address(
        &mut self,
        address: &Address,
        request: &Event,
    ) -> Result<Option<EventId>, StoreError> {
        let key = keys::address_key_of(address);
        let until = request.created_at.as_secs();
        self.forget_versions(&keys::history(&key), until)?;
        let lookup = self.lookup();
        let Some(serial) = lookup.serial_in(self.tables.addresses, &key)? else {
            return Ok(None);
        };
        if lookup.record(&serial)?.created_at() > until {
            return Ok(None);
        }
        self.take_out(&serial).map(Some)
    }

    /// Notes a use of a request.
    pub(super) fn use_request(&mut self, id: &EventId, now: Timestamp) -> Result<(), StoreError> {
        let lookup = self.lookup();
        let Some(row) = lookup.request(id)? else {
            return Ok(());
        };
        let retired = (!row.is_served()).then(|| lookup.request_event(id));
        let (kind, first_seen) = (row.kind, row.first_seen);
        if let Some(event) = retired.transpose()?.flatten() {
            self.insert(&event, &crate::record::Head::of(&event))?;
        }
        let row = RequestRow {
            kind,
            first_seen,
            last_used: Some(now.as_secs()),
            json: &[],
        };
        Ok(self.set(Which::Requests, id.as_bytes(), &row.encode())?)
    }

    /// Takes a request out of service; it still refuses what it is about.
    pub(super) fn retire_request(&mut self, id: &EventId) -> Result<(), StoreError> {
        let lookup = self.lookup();
        let (Some(row), Some(serial)) = (lookup.request(id)?, lookup.serial_of(id.as_bytes())?)
        else {
            return Ok(());
        };
        let record: Record<'_> = lookup.record(&serial)?;
        let row = RequestRow {
            json: record.json(),
            ..row
        };
        let row = row.encode();
        self.take_out(&serial)?;
        Ok(self.set(Which::Requests, id.as_bytes(), &row)?)
    }

    /// Forgets a request: what it was about is admissible again.
    fn forget_request(&mut self, id: &EventId) -> Result<(), StoreError> {
        if let Some(request) = self.lookup().request_event(id)? {
            for target in targets_of(&request) {
                let key = [&target[..], id.as_bytes()].concat();
                self.unset(Which::Targets, &key)?;
            }
        }
        if let Some(serial) = self.lookup().serial_of(id.as_bytes())? {
            self.take_out(&serial)?;
        }
        Ok(self.unset(Which::Requests, id.as_bytes())?)
    }
}

/// The beginnings of all keys that a request may have among the targets.
fn targets_of(request: &Event) -> Vec<Vec<u8>> {
    let author = request.pubkey.as_bytes();
    let Some(deletion) = Deletion::parse(request.clone()) else {
        return vec![keys::target_author(author), keys::vanishing_author(author)];
    };
    let ids = deletion.ids.iter();
    let ids = ids.map(|id| keys::target_id(id.as_bytes(), author));
    let addresses = deletion.addresses.iter();
    let addresses = addresses.filter(|it| has_address(it.kind.as_u16()));
    let addresses = addresses.map(|it| keys::target_address(&keys::address_key_of(it)));
    ids.chain(addresses).collect()
}

/// Up to which time events go by a target of a request: by their ids all do.
fn until(target: &[u8], request: &Event) -> u64 {
    match target[0] {
        0 => u64::MAX,
        _ => request.created_at.as_secs(),
    }
}

/// Notes the deletion requests of a store of format 1, whose tombstones lay in tables of their own.
/// Whether each was of use is not known: all count as if they just had been.
/// The old tables are left, and nobody reads them.
pub(crate) fn take_over_requests(tables: Tables, txn: &mut RwTxn<'_>) -> Result<(), heed::Error> {
    let now = Timestamp::now().as_secs();
    let kind = kinds::DELETION.as_u16();
    let mut requests: Vec<Event> = Vec::new();
    for found in tables.by_kind.prefix_iter(txn, &kind.to_be_bytes())? {
        let (_, entry) = found?;
        let serial = entry.get(..8).unwrap_or_default();
        let record = tables.events.get(txn, serial)?.unwrap_or_default();
        let json = Record::decode(record).map(|record| record.json().to_vec());
        requests.extend(json.ok().and_then(|it| serde_json::from_slice(&it).ok()));
    }
    for request in &requests {
        let row = RequestRow {
            kind,
            first_seen: now,
            last_used: Some(now),
            json: &[],
        };
        tables
            .requests
            .put(txn, request.id.as_bytes(), &row.encode())?;
        for target in targets_of(request) {
            let key = [&target[..], request.id.as_bytes()].concat();
            let until = until(&target, request);
            tables.targets.put(txn, &key, &until.to_be_bytes())?;
        }
    }
    Ok(())
}
