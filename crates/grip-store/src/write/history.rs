//! Versions of announcements and states that others replaced (G01-104): what the author returns to
//! by deleting the one that is served (G01-105, G01-106).

use grip_nostr::{Address, kinds};
use nostr::prelude::{Event, EventId, Timestamp};

use super::WriteView;
use crate::{
    StoreError,
    changes::Which,
    keys::{self, Serial},
    lookup::parse,
    record::{Head, Record},
    view::Transaction,
};

/// How many versions of one address are kept, and how many bytes of them: the latest.
const MAX_VERSIONS: usize = 16;
const MAX_BYTES: usize = 4 << 20;

fn has_history(kind: u16) -> bool {
    [kinds::ANNOUNCEMENT.as_u16(), kinds::STATE.as_u16()].contains(&kind)
}

/// What became of a version that another server had replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is the author's to return to.
    Stored,
    /// It is here already, replaced or served.
    Duplicate,
    /// No later version of its address is served.
    Unserved,
    /// Its author asked for its deletion.
    Deleted,
    /// Later ones take up all that is kept of an address.
    Beyond,
}

impl WriteView<'_> {
    /// Keeps a version of an announcement or state that another server had replaced, as if it had been
    /// replaced here.
    pub fn keep_version(&mut self, event: &Event) -> Result<Kept, StoreError> {
        self.guarded(|view| view.keep_checked(event))
    }

    fn keep_checked(&mut self, event: &Event) -> Result<Kept, StoreError> {
        let head = Head::of(event);
        let served = if has_history(head.kind) {
            self.other_version(&head)?
        } else {
            None
        };
        match served {
            Some(served) if served.position == head.position => return Ok(Kept::Duplicate),
            Some(served) if served.position < head.position => {}
            _ => return Ok(Kept::Unserved),
        }
        if self.lookup().deletion_of(event)?.is_some() {
            return Ok(Kept::Deleted);
        }
        let prefix = prefix(&head);
        let key = [&prefix[..], &head.position].concat();
        if self.tables.history.get(&self.txn, &key)?.is_some() {
            return Ok(Kept::Duplicate);
        }
        let mut record = Vec::new();
        head.encode(event, &mut record)?;
        self.set(Which::History, &key, &record)?;
        self.trim(&prefix)?;
        let is_kept = self.tables.history.get(&self.txn, &key)?.is_some();
        Ok(if is_kept { Kept::Stored } else { Kept::Beyond })
    }

    /// Takes an event out and puts the version before it, if there is one, in its place. Says whether
    /// it was here.
    pub fn roll_back(&mut self, id: &EventId, now: Timestamp) -> Result<bool, StoreError> {
        self.guarded(|view| {
            let Some(serial) = view.lookup().serial_of(id.as_bytes())? else {
                return Ok(false);
            };
            let head = view.lookup().record(&serial)?.to_head();
            view.take_out(&serial)?;
            view.restore_version(&head, now)?;
            Ok(true)
        })
    }

    /// Forgets the versions of an address that others replaced, up to the one of such a time and id,
    /// whether that was ever here or not.
    pub fn forget_history(
        &mut self,
        address: &Address,
        created_at: Timestamp,
        id: &EventId,
    ) -> Result<(), StoreError> {
        let prefix = keys::history(&keys::address_key_of(address));
        let last = keys::position(created_at.as_secs(), id.as_bytes());
        self.guarded(|view| {
            let mut gone = Vec::new();
            for found in view.tables.history.prefix_iter(&view.txn, &prefix)? {
                let (key, _) = found?;
                // The lower position is the newer version.
                if key[prefix.len()..] >= last[..] {
                    gone.push(key.to_vec());
                }
            }
            for key in gone {
                view.unset(Which::History, &key)?;
            }
            Ok(())
        })
    }

    /// Forgets the versions of addresses of which none is served any more. Says how many.
    pub fn forget_stale_history(&mut self, max: usize) -> Result<usize, StoreError> {
        self.guarded(|view| {
            let mut stale = Vec::new();
            for found in view.tables.history.iter(&view.txn)? {
                let (key, _) = found?;
                let address = [&key[32..50], &key[..32]].concat();
                if view.tables.addresses.get(&view.txn, &address)?.is_none() {
                    stale.push(key.to_vec());
                }
                if stale.len() >= max {
                    break;
                }
            }
            for key in &stale {
                view.unset(Which::History, key)?;
            }
            Ok(stale.len())
        })
    }

    /// Takes a version out that another replaces, and keeps it.
    pub(super) fn replace_version(&mut self, serial: &Serial) -> Result<EventId, StoreError> {
        let bytes = self.tables.events.get(&self.txn, serial)?;
        let bytes = bytes.unwrap_or_default().to_vec();
        let head = Record::decode(&bytes)?.to_head();
        if has_history(head.kind) {
            let prefix = prefix(&head);
            let key = [&prefix[..], &head.position].concat();
            self.set(Which::History, &key, &bytes)?;
            self.trim(&prefix)?;
        }
        self.take_out(serial)
    }

    fn trim(&mut self, prefix: &[u8]) -> Result<(), StoreError> {
        let (mut bytes, mut beyond) = (0, Vec::new());
        let found = self.tables.history.prefix_iter(&self.txn, prefix)?;
        for (nth, found) in found.enumerate() {
            let (key, record) = found?;
            bytes += record.len();
            if nth >= MAX_VERSIONS || (nth > 0 && bytes > MAX_BYTES) {
                beyond.push(key.to_vec());
            }
        }
        for key in beyond {
            self.unset(Which::History, &key)?;
        }
        Ok(())
    }

    /// Serves the latest version of an address that is neither deleted nor expired.
    pub(super) fn restore_version(
        &mut self,
        gone: &Head,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if !has_history(gone.kind) {
            return Ok(());
        }
        let prefix = prefix(gone);
        loop {
            let mut found = self.tables.history.prefix_iter(&self.txn, &prefix)?;
            let Some((key, record)) = found.next().transpose()? else {
                return Ok(());
            };
            let (key, version): (Vec<u8>, Event) = (key.to_vec(), parse(Record::decode(record)?)?);
            drop(found);
            self.unset(Which::History, &key)?;
            let head = Head::of(&version);
            let is_over = head.expiration.is_some_and(|at| at <= now.as_secs());
            if !is_over && self.lookup().deletion_of(&version)?.is_none() {
                return self.insert(&version, &head);
            }
        }
    }

    /// Forgets the versions whose keys begin so and that are not later than a time.
    pub(super) fn forget_versions(&mut self, prefix: &[u8], until: u64) -> Result<(), StoreError> {
        let mut gone = Vec::new();
        for found in self.tables.history.prefix_iter(&self.txn, prefix)? {
            let (key, record) = found?;
            if Record::decode(record)?.created_at() <= until {
                gone.push(key.to_vec());
            }
        }
        for key in gone {
            self.unset(Which::History, &key)?;
        }
        Ok(())
    }
}

fn prefix(head: &Head) -> Vec<u8> {
    keys::history(&keys::address_key(head.kind, &head.d, &head.author))
}
