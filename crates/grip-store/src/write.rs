//! Writes: the rules of NIP-01, NIP-09, NIP-40 and NIP-62, inside one transaction.

mod deletion;
mod history;
mod indexes;

use grip_nostr::kinds::{self, Class};
use heed::{RoTxn, RwTxn};
use nostr::prelude::{Event, EventId, Timestamp};

pub use deletion::Aged;
pub(crate) use deletion::take_over_requests;
pub use history::Kept;

use crate::{
    StoreError,
    changes::{self, Change, Which},
    keys::{self, Serial},
    lookup::{Lookup, read_serial},
    record::Head,
    requests::is_request,
    tables::Tables,
    view::Transaction,
};

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is served; these are not any more: the version it replaces, or what it deletes.
    Stored { removed: Vec<EventId> },
    /// It is here already.
    Duplicate,
    /// A later version of the same address is here.
    Superseded { by: EventId },
    /// Its author asked for its deletion.
    Deleted { by: EventId },
    /// Its time was over before it came.
    Expired,
}

/// The one write transaction of the moment; it sees its own changes.
pub struct WriteView<'s> {
    tables: Tables,
    txn: RwTxn<'s>,
    next_serial: u64,
    /// Kept between events, so that a batch allocates once.
    buffer: Vec<u8>,
    /// A step failed half-way: the transaction must not be committed, whatever its user says.
    broken: bool,
    /// Requests to delete are kept and do nothing.
    ignores_deletions: bool,
    /// All that was changed, if somebody wants to know.
    changes: Option<Vec<Change>>,
}

impl Transaction for WriteView<'_> {
    fn lookup(&self) -> Lookup<'_> {
        let txn: &RoTxn<'_> = &self.txn;
        Lookup {
            tables: self.tables,
            txn,
        }
    }
}

impl<'s> WriteView<'s> {
    pub(crate) fn new(
        tables: Tables,
        txn: RwTxn<'s>,
        notes_changes: bool,
        ignores_deletions: bool,
    ) -> Result<Self, StoreError> {
        let next_serial = match tables.events.last(&txn)? {
            Some((serial, _)) => u64::from_be_bytes(read_serial(serial)?) + 1,
            None => 0,
        };
        Ok(Self {
            tables,
            txn,
            next_serial,
            buffer: Vec::new(),
            broken: false,
            ignores_deletions,
            changes: notes_changes.then(Vec::new),
        })
    }

    /// Commits, and says what was changed if that was asked for.
    pub(crate) fn commit(self) -> Result<Vec<Change>, StoreError> {
        if self.broken {
            return Err(StoreError::Incomplete);
        }
        self.txn.commit()?;
        Ok(self.changes.unwrap_or_default())
    }

    /// All that was changed so far, in a form that [`WriteView::apply_changes`] reads. Empty if nothing
    /// was, or if [`Options::notes_changes`](crate::Options::notes_changes) is not set.
    pub fn encoded_changes(&self) -> Vec<u8> {
        changes::encode(self.changes.as_deref().unwrap_or_default())
    }

    /// Makes the changes of another copy of this store, which was as this one is now. Making those
    /// again that were made last is harmless.
    pub fn apply_changes(&mut self, encoded: &[u8]) -> Result<(), StoreError> {
        let made = changes::decode(encoded)?;
        self.guarded(|view| {
            for change in made {
                change.apply(&view.tables, &mut view.txn)?;
                if let Some(changes) = &mut view.changes {
                    changes.push(change);
                }
            }
            Ok(())
        })
    }

    fn set(&mut self, which: Which, key: &[u8], value: &[u8]) -> heed::Result<()> {
        self.note(which, key, Some(value));
        which.of(&self.tables).put(&mut self.txn, key, value)
    }

    fn unset(&mut self, which: Which, key: &[u8]) -> heed::Result<()> {
        self.note(which, key, None);
        which.of(&self.tables).delete(&mut self.txn, key).map(drop)
    }

    fn note(&mut self, which: Which, key: &[u8], value: Option<&[u8]>) {
        if let Some(changes) = &mut self.changes {
            changes.push(Change::new(which, key, value));
        }
    }

    /// Stores an event if the rules of its class, earlier deletions and its expiration allow it.
    ///
    /// An ephemeral event is the caller's mistake and refused with [`StoreError::Ephemeral`], which
    /// leaves the transaction usable; after any other error it cannot be committed.
    pub fn put(&mut self, event: &Event, now: Timestamp) -> Result<Put, StoreError> {
        if kinds::class(event.kind) == Class::Ephemeral {
            return Err(StoreError::Ephemeral(event.kind));
        }
        self.guarded(|view| view.put_checked(event, now))
    }

    /// Takes an event out; says whether it was here. Nothing remembers it: it may come again. A
    /// request is not served any more, and stays in force.
    pub fn remove(&mut self, id: &EventId) -> Result<bool, StoreError> {
        self.guarded(|view| {
            let Some(serial) = view.lookup().serial_of(id.as_bytes())? else {
                return Ok(false);
            };
            if view.lookup().request(id)?.is_some() {
                view.retire_request(id)?;
            } else {
                view.take_out(&serial)?;
            }
            Ok(true)
        })
    }

    fn guarded<T>(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = step(self);
        self.broken |= result.is_err();
        result
    }

    fn put_checked(&mut self, event: &Event, now: Timestamp) -> Result<Put, StoreError> {
        let is_request = is_request(event.kind.as_u16());
        let is_known = is_request && self.lookup().request(&event.id)?.is_some();
        if is_known || self.lookup().contains(&event.id)? {
            return Ok(Put::Duplicate);
        }
        let head = Head::of(event);
        if head.expiration.is_some_and(|at| at <= now.as_secs()) {
            return Ok(Put::Expired);
        }
        if !self.ignores_deletions
            && let Some(by) = self.lookup().deletion_of(event)?
        {
            self.use_request(&by, now)?;
            return Ok(Put::Deleted { by });
        }
        let mut removed = Vec::new();
        if let Some(older) = self.other_version(&head)? {
            let has_expired = older.expiration.is_some_and(|at| at <= now.as_secs());
            if older.position < head.position && !has_expired {
                return Ok(Put::Superseded {
                    by: EventId::from_byte_array(*older.id()),
                });
            }
            removed.push(if has_expired {
                self.take_out(&older.serial)?
            } else {
                self.replace_version(&older.serial)?
            });
        }
        self.insert(event, &head)?;
        if is_request {
            self.delete_targets(event, now, &mut removed)?;
            self.note_request(event, !removed.is_empty(), now)?;
        }
        Ok(Put::Stored { removed })
    }

    /// The version at the same address that is here.
    fn other_version(&self, head: &Head) -> Result<Option<Version>, StoreError> {
        if !indexes::has_address(head.kind) {
            return Ok(None);
        }
        let key = keys::address_key(head.kind, &head.d, &head.author);
        let lookup = self.lookup();
        let Some(serial) = lookup.serial_in(self.tables.addresses, &key)? else {
            return Ok(None);
        };
        let record = lookup.record(&serial)?;
        Ok(Some(Version {
            serial,
            position: *record.position(),
            expiration: record.expiration(),
        }))
    }
}

struct Version {
    serial: Serial,
    position: keys::Position,
    expiration: Option<u64>,
}

impl Version {
    fn id(&self) -> &[u8; 32] {
        keys::id_of(&self.position)
    }
}
