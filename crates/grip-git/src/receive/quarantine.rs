//! A received pack that is checked but not yet part of anything.

use std::io;

use grip_tasks::Permit;
use grip_types::{Identifier, Oid};

use crate::{
    change_log::{LoggedChange, StoredPack},
    memory::Payer,
    objects::ObjectKind,
    packs::{Promoted, QuarantinedPack},
    repositories::{RepoError, Repositories},
};

/// A received pack, waiting to be judged. Dropping it removes it.
#[must_use = "a quarantine that is not promoted is removed"]
pub struct Quarantine {
    pub(crate) repositories: Repositories,
    pub(super) identifier: Identifier,
    pub(crate) pack: Option<QuarantinedPack>,
    /// What is not in it does not count as being here.
    pub(super) is_apart: bool,
    /// Whose share of the memory its walks take.
    pub(super) payer: Payer,
    /// What is here need not be in it: the objects that it was compared with stay.
    pub(super) _receiving: Permit<Identifier>,
}

impl Quarantine {
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// Says whether there are no objects in it.
    pub fn is_empty(&self) -> bool {
        self.pack.is_none()
    }

    /// What each object is, here or, unless it was received apart, in the store; `None` for those in
    /// neither. Blocking.
    pub fn kinds(&self, oids: &[Oid]) -> Result<Vec<Option<ObjectKind>>, RepoError> {
        let mut kinds = if self.is_apart {
            vec![None; oids.len()]
        } else {
            self.repositories.kinds(&self.identifier, oids)?
        };
        if let Some(pack) = &self.pack {
            let reader = pack.objects.reader();
            for (kind, oid) in kinds.iter_mut().zip(oids) {
                *kind = kind.or_else(|| reader.kind(oid));
            }
        }
        Ok(kinds)
    }

    /// Makes the objects part of the identifier's store, for good. Blocking; durable on return.
    ///
    /// Doing it twice with the same pack is harmless.
    pub fn promote(self) -> io::Result<Promoted> {
        let Some(pack) = &self.pack else {
            return Ok(Promoted::default());
        };
        let inner = &self.repositories.inner;
        let log = &inner.options.log;
        // Before the lock is taken: it may take a while.
        let stored = StoredPack {
            name: pack.name().to_owned(),
            files: log.store_pack(pack.files())?,
        };
        let _turn = inner.lock(&self.identifier);
        let change = || LoggedChange::Pack {
            identifier: self.identifier.clone(),
            pack: stored.clone(),
        };
        log.before(change, || {
            if inner.packs.is_cached() {
                inner.packs.note_stored(&self.identifier, &stored)?;
            }
            inner.packs.put(pack)
        })
    }
}
