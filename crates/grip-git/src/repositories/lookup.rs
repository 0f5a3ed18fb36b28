//! Looking into the object stores, opened once and again when their packs change.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use grip_types::{Identifier, Oid};

use crate::{
    disk,
    objects::{ObjectKind, Objects, Stamp},
};

use super::{Inner, RepoError, Repositories};

impl Repositories {
    /// What each object is; `None` for those that are not in the identifier's store.
    pub fn kinds(
        &self,
        identifier: &Identifier,
        oids: &[Oid],
    ) -> Result<Vec<Option<ObjectKind>>, RepoError> {
        self.inner.kinds(identifier, oids)
    }
}

impl Inner {
    fn generation(&self, identifier: &Identifier) -> &AtomicU64 {
        &self.generations[self.stripe(identifier)]
    }

    /// Says that packs came or went: the next look opens the store anew, and what is mapped of
    /// packs that are gone is let go.
    pub(crate) fn packs_changed(&self, identifier: &Identifier) {
        self.generation(identifier).fetch_add(1, Ordering::AcqRel);
        self.stores.lock().remove(identifier);
    }

    pub(super) fn objects(&self, identifier: &Identifier) -> io::Result<Objects> {
        let path = self.layout.store(identifier).join("objects");
        let generation = self.generation(identifier).load(Ordering::Acquire);
        let stamp = Stamp::of(&path, generation)?;
        let known = self.stores.lock().get(identifier);
        if let Some(known) = known.filter(|known| known.stamp == stamp) {
            return Ok(known);
        }
        let opened = Objects::open(path, generation)?;
        let mut stores = self.stores.lock();
        stores.insert(identifier.clone(), opened.clone(), 1);
        Ok(opened)
    }

    pub(crate) fn kinds(
        &self,
        identifier: &Identifier,
        oids: &[Oid],
    ) -> Result<Vec<Option<ObjectKind>>, RepoError> {
        match self.try_kinds(identifier, oids) {
            Err(error) if disk::is_absent(&error) => Ok(vec![None; oids.len()]),
            result => result.map_err(|source| unreachable_objects(identifier, source)),
        }
    }

    fn try_kinds(
        &self,
        identifier: &Identifier,
        oids: &[Oid],
    ) -> io::Result<Vec<Option<ObjectKind>>> {
        let objects = self.objects(identifier)?;
        let reader = objects.reader();
        let mut kinds: Vec<_> = oids.iter().map(|oid| reader.kind(oid)).collect();
        if kinds.iter().all(Option::is_some) {
            return Ok(kinds);
        }
        // A pack that is rolled up while we look makes a miss that proves nothing.
        let now = self.objects(identifier)?;
        if now.stamp != objects.stamp || self.maintained.has(identifier) {
            let reader = now.patient_reader();
            for (kind, oid) in kinds.iter_mut().zip(oids) {
                *kind = kind.or_else(|| reader.kind(oid));
            }
        }
        Ok(kinds)
    }
}

pub(super) fn unreachable_objects(identifier: &Identifier, source: io::Error) -> RepoError {
    RepoError::Objects {
        identifier: identifier.clone(),
        source,
    }
}
