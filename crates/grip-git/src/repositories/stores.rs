//! Object stores that nobody needs any more.
//!
//! Invariant: a store goes only while its identifier's lock is held, and only if no repository,
//! no archived repository, no pack under way, no answer under way and no maintenance uses it. A
//! pack is checked against what the store has: a store that went meanwhile would leave it with
//! links into nothing.

use std::{
    collections::{BTreeSet, HashMap},
    fs, io,
    path::PathBuf,
    sync::Arc,
};

use grip_tasks::fault;
use grip_types::Identifier;
use parking_lot::Mutex;

use crate::{
    disk,
    layout::{self, RepoPath},
};

use super::{Inner, RepoError, Repositories, lookup::unreachable_objects};

/// The identifiers whose objects somebody works with, and how many do: as many as there are
/// packs and answers under way.
#[derive(Default)]
pub(crate) struct Users(Mutex<HashMap<Identifier, usize>>);

/// Keeps the store of an identifier where it is.
pub(crate) struct Using {
    inner: Arc<Inner>,
    identifier: Identifier,
}

impl Using {
    /// Whoever needs what is in the store asks for this while it holds the identifier's lock, or
    /// before it looks.
    pub(crate) fn new(inner: &Arc<Inner>, identifier: &Identifier) -> Self {
        let mut users = inner.users.0.lock();
        *users.entry(identifier.clone()).or_default() += 1;
        Self {
            inner: Arc::clone(inner),
            identifier: identifier.clone(),
        }
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        let mut users = self.inner.users.0.lock();
        if let Some(count) = users.get_mut(&self.identifier) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.identifier);
            }
        }
    }
}

impl Repositories {
    /// The identifiers that have an object store. Blocking.
    pub fn stores(&self) -> io::Result<BTreeSet<Identifier>> {
        let entries = disk::entries(&self.inner.layout.stores())?;
        let stores = entries.into_iter().filter(|(_, kind)| kind.is_dir());
        Ok(stores.filter_map(|(name, _)| named(&name)).collect())
    }

    /// The identifiers of archived repositories. Blocking.
    pub fn archived(&self) -> io::Result<BTreeSet<Identifier>> {
        let mut found = BTreeSet::new();
        self.inner.each_archive(|path| {
            let names = disk::entries(&path)?.into_iter();
            found.extend(names.filter_map(|(name, _)| layout::identifier_of(&name)));
            Ok(false)
        })?;
        Ok(found)
    }

    /// Removes the store of an identifier with all its objects; false if something uses it, or if
    /// there is none. Blocking; whether anybody may still want the objects is for the caller.
    ///
    /// A crash leaves the store, or nothing that outlives the next start.
    pub fn remove_store(&self, identifier: &Identifier) -> Result<bool, RepoError> {
        let removed = self.inner.take_store_away(identifier);
        let removed = removed.map_err(|source| unreachable_objects(identifier, source))?;
        let Some(away) = removed else {
            return Ok(false);
        };
        // Without the lock: to remove many files takes a while.
        if let Err(error) = fs::remove_dir_all(&away) {
            tracing::warn!(path = %away.display(), %error, "objects not removed; the next start does it");
        }
        Ok(true)
    }

    /// The room left for us where the repositories are. Blocking, as a look at a file is.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let disk = rustix::fs::statvfs(&self.inner.layout.root)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

impl Inner {
    /// Says whether a pack or an answer of this identifier is under way.
    pub(super) fn is_in_use(&self, identifier: &Identifier) -> bool {
        self.users.0.lock().contains_key(identifier)
    }

    /// Moves the store into quarantine in one step, unless something needs it.
    fn take_store_away(&self, identifier: &Identifier) -> io::Result<Option<PathBuf>> {
        let _turn = self.lock(identifier);
        let store = self.layout.store(identifier);
        if self.is_in_use(identifier) || !disk::is_real_dir(&store)? {
            return Ok(None);
        }
        let Some(_claim) = self.maintained.take(identifier) else {
            return Ok(None);
        };
        if self.has_repository(identifier)? || self.has_archived(identifier)? {
            return Ok(None);
        }
        let away = self.layout.quarantines().join(disk::unique());
        fs::rename(&store, &away)?;
        self.packs_changed(identifier);
        disk::sync_parent(&store)?;
        fault::point("git.store.away");
        Ok(Some(away))
    }

    /// As [`Inner::holders`], but whatever bears the name counts, and doubt is an error.
    fn has_repository(&self, identifier: &Identifier) -> io::Result<bool> {
        for (npub, kind) in disk::entries(&self.layout.root)? {
            if kind.is_file() || !layout::is_npub(&npub) {
                continue;
            }
            let repo = RepoPath::new(npub, identifier.clone());
            if is_there(self.layout.repository(&repo))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_archived(&self, identifier: &Identifier) -> io::Result<bool> {
        let name = layout::directory(identifier);
        self.each_archive(|path| is_there(path.join(&name)))
    }

    /// Looks into every directory that archived repositories are in, until `look` finds it.
    fn each_archive(&self, mut look: impl FnMut(PathBuf) -> io::Result<bool>) -> io::Result<bool> {
        let archive = self.layout.root.join(".archive");
        for (npub, _) in disk::entries(&archive)? {
            let of_owner = archive.join(npub);
            for (stamp, _) in disk::entries(&of_owner)? {
                if look(of_owner.join(stamp))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The identifier of a store; none for a name that we would not give it.
fn named(directory: &str) -> Option<Identifier> {
    let identifier = layout::identifier_of(directory);
    identifier.filter(|identifier| layout::directory(identifier) == directory)
}

/// Says whether anything is there, a symbolic link too.
fn is_there(path: PathBuf) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if disk::is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
