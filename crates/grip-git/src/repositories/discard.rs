//! Removal of repositories, in two steps: out of their place at once, from the disk when nobody waits.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use grip_tasks::fault;
use grip_types::{Identifier, RepoAddr};

use crate::{change_log::LoggedChange, disk, layout};

use super::{Inner, RepoError, Repositories, unreachable_repo};

/// A repository that was taken out of its place, whose files are still to be removed.
///
/// Dropped without that it lies in the quarantine until the next start. A power cut before it is removed
/// may leave it in its place, whole.
#[must_use = "its files are on the disk until they are removed"]
#[derive(Debug)]
pub struct Discarded {
    away: PathBuf,
    /// The directory it was in.
    owner: PathBuf,
}

impl Discarded {
    /// Removes the files, and the directory of the owner if nothing else is in it. Blocking.
    pub fn remove(self) -> io::Result<()> {
        // First the place, then the files: a crash leaves no half of a repository.
        disk::sync_dir_if_there(&self.owner)?;
        fs::remove_dir_all(&self.away)?;
        // Another repository may be in it.
        let _ = fs::remove_dir(&self.owner);
        Ok(())
    }
}

impl Repositories {
    /// Takes a repository without refs, staged ones left aside, out of its place; `None` if there is
    /// none of that name. Blocking, for one step.
    pub fn take_empty(&self, repo: &RepoAddr) -> Result<Option<Discarded>, RepoError> {
        let _turn = self.inner.lock(&repo.identifier);
        let Some(path) = self.inner.find(repo)? else {
            return Ok(None);
        };
        self.inner.drop_staged(repo)?;
        if !self.inner.load(repo)?.is_blank() {
            return Err(RepoError::NotEmpty(repo.clone()));
        }
        self.inner.take_logged(repo, &path).map(Some)
    }

    /// Removes a repository without refs; `false` if there is none of that name. Blocking.
    pub fn remove_empty(&self, repo: &RepoAddr) -> Result<bool, RepoError> {
        let Some(taken) = self.take_empty(repo)? else {
            return Ok(false);
        };
        let removed = taken.remove();
        removed.map_err(|source| unreachable_repo(repo, source))?;
        Ok(true)
    }

    /// Removes a repository with its refs for good; no error if it is not there. Its objects stay in
    /// the store until nothing uses that. Blocking.
    pub fn remove(&self, repo: &RepoAddr) -> Result<(), RepoError> {
        let taken = {
            let _turn = self.inner.lock(&repo.identifier);
            self.inner.forget(repo);
            let Some(path) = self.inner.find(repo)? else {
                return Ok(());
            };
            self.inner.drop_staged(repo)?;
            self.inner.take_logged(repo, &path)?
        };
        let removed = taken.remove();
        removed.map_err(|source| unreachable_repo(repo, source))
    }
}

impl Inner {
    fn take_logged(&self, repo: &RepoAddr, path: &Path) -> Result<Discarded, RepoError> {
        self.forget(repo);
        let change = || LoggedChange::Remove { repo: repo.clone() };
        let log = &self.options.log;
        let taken = log.before(change, || self.take(repo, path));
        taken.map_err(|source| unreachable_repo(repo, source))
    }

    /// Takes a repository out of its place, and removes a store without objects that it was the last to
    /// use: announcements that never got any data leave nothing behind. The caller holds the lock.
    fn take(&self, repo: &RepoAddr, path: &Path) -> io::Result<Discarded> {
        let away = self.layout.quarantines().join(disk::unique());
        fs::rename(path, &away)?;
        fault::point("git.repository.away");
        let owner = self.layout.owner_of(repo);
        if self.options.log.is_some() {
            // A copy says of no change that it is made before it is durable.
            disk::sync_dir_if_there(&owner)?;
        }
        self.remove_idle_store(&repo.identifier)?;
        Ok(Discarded { away, owner })
    }

    /// Removes a repository at once. The caller holds the lock.
    pub(super) fn discard(&self, repo: &RepoAddr, path: &Path) -> io::Result<()> {
        self.take(repo, path)?.remove()
    }

    /// Removes a store without objects that no repository uses. Who uses it is only asked where there are
    /// none, since every owner of the node is looked at.
    fn remove_idle_store(&self, identifier: &Identifier) -> io::Result<()> {
        if self.packs.has_objects(identifier)? || !self.holders(identifier)?.is_empty() {
            return Ok(());
        }
        self.packs.remove_empty(identifier)
    }

    /// Removes the directory of an owner who has no repository any more.
    pub(super) fn remove_idle_owner(&self, repo: &RepoAddr) {
        // It fails where something is in it.
        let _ = fs::remove_dir(self.layout.owner_of(repo));
    }

    /// Removes the directories of owners who have no repository; only for the start.
    pub(super) fn remove_idle_owners(&self) -> io::Result<()> {
        for (npub, kind) in disk::entries(&self.layout.root)? {
            if kind.is_dir() && layout::is_npub(&npub) {
                let _ = fs::remove_dir(self.layout.owner(&npub));
            }
        }
        Ok(())
    }
}
