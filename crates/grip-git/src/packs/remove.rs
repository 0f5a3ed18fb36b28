//! Removal of packs, and of whole stores.
//!
//! A pack is checked against what its store has: a store that went meanwhile would leave it with
//! links into nothing. So no store goes that is in use or being repacked.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use grip_tasks::fault;
use grip_types::Identifier;

use crate::disk;

use super::{Packs, collect::remove_packs, pack_dir};

impl Packs {
    /// Moves a store with all its objects into the quarantine, for the caller to remove there
    /// without the lock; `None` if there is none, if it is in use, or if `is_needed` says so.
    ///
    /// The caller holds the lock. A crash leaves the store, or nothing that outlives the next start.
    pub(crate) fn take_away(
        &self,
        identifier: &Identifier,
        is_needed: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<Option<PathBuf>> {
        let store = self.layout.store(identifier);
        if self.in_use.held(identifier) > 0 || !disk::is_real_dir(&store)? {
            return Ok(None);
        }
        let Some(_permit) = self.repacking.try_take(identifier, 1) else {
            return Ok(None);
        };
        if is_needed()? {
            return Ok(None);
        }
        let away = disk::move_away(&store, &self.layout.quarantines());
        self.changed(identifier);
        self.cache.forget(identifier);
        let away = away?;
        fault::point("git.store.away");
        Ok(Some(away))
    }

    /// Removes packs by their names; those that are not there are not missed. The caller holds the lock.
    pub(crate) fn remove_named(&self, identifier: &Identifier, names: &[String]) -> io::Result<()> {
        let dir = pack_dir(&self.objects(identifier));
        let removed = remove_packs(&dir, names.iter().map(String::as_str));
        self.changed(identifier);
        removed
    }

    /// Says whether anything is in the store of an identifier.
    pub(crate) fn has_objects(&self, identifier: &Identifier) -> io::Result<bool> {
        let objects = self.objects(identifier);
        let packs = disk::entries(&pack_dir(&objects))?;
        let all = disk::entries(&objects)?;
        let mut names = packs.iter().chain(&all).map(|(name, _)| name);
        Ok(names.any(|name| name != "info" && name != "pack"))
    }

    /// Removes a store without objects, unless it is in use. The caller holds the lock.
    pub(crate) fn remove_empty(&self, identifier: &Identifier) -> io::Result<()> {
        let is_needed = || Ok(self.has_objects(identifier)? || self.has_missing(identifier));
        match self.take_away(identifier, is_needed)? {
            Some(away) => fs::remove_dir_all(away),
            None => Ok(()),
        }
    }
}

/// Removes a pack, its index first: without it nobody looks for the rest. The caller holds the lock.
pub(crate) fn remove_pack(dir: &Path, pack: &str) -> io::Result<()> {
    for extension in ["idx", "rev", "pack"] {
        disk::remove_file(&dir.join(format!("{pack}.{extension}")))?;
        fault::point("git.pack.removing");
    }
    match disk::sync_dir(dir) {
        Err(error) if !disk::is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}
