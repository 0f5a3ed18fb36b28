//! Taking repositories out of sight and bringing them back. Objects stay where they are.

use std::{fs, io, path::PathBuf};

use grip_types::Identifier;

use crate::{
    disk,
    layout::{self, RepoPath},
};

use super::{Inner, RepoError, Repositories, unreachable_repo};

impl Repositories {
    /// Moves a repository out of sight; `stamp` (unix seconds, say) tells several of one name apart.
    ///
    /// No error if it is not there.
    pub fn archive(&self, repo: &RepoPath, stamp: u64) -> Result<(), RepoError> {
        self.inner.check_name(repo)?;
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.forget(repo);
        let Some(path) = self.inner.find(repo)? else {
            return Ok(());
        };
        let target = self.inner.archived(repo, stamp);
        self.inner
            .relocate(&path, &target)
            .map_err(|source| unreachable_repo(repo, source))
    }

    /// Brings back what was archived last under this name; `false` if nothing was, or if there is
    /// a repository of that name.
    pub fn restore(&self, repo: &RepoPath) -> Result<bool, RepoError> {
        self.inner.check_name(repo)?;
        let _turn = self.inner.lock(&repo.identifier);
        if self.inner.find(repo)?.is_some() {
            return Ok(false);
        }
        let restored = self.inner.restore(repo);
        restored.map_err(|source| unreachable_repo(repo, source))
    }

    /// Removes a repository without refs; `false` if there is none of that name.
    pub fn remove_empty(&self, repo: &RepoPath) -> Result<bool, RepoError> {
        self.inner.check_name(repo)?;
        let _turn = self.inner.lock(&repo.identifier);
        let Some(path) = self.inner.find(repo)? else {
            return Ok(false);
        };
        if !self.inner.load(repo)?.is_empty() {
            return Err(RepoError::NotEmpty(repo.clone()));
        }
        self.inner.forget(repo);
        self.inner
            .discard(path)
            .and_then(|()| self.inner.remove_unused_store(&repo.identifier))
            .map_err(|source| unreachable_repo(repo, source))?;
        Ok(true)
    }
}

impl Inner {
    fn archived(&self, repo: &RepoPath, stamp: u64) -> PathBuf {
        let archive = self.layout.archive(&repo.npub);
        archive
            .join(stamp.to_string())
            .join(layout::directory(&repo.identifier))
    }

    fn relocate(&self, from: &PathBuf, to: &PathBuf) -> io::Result<()> {
        if let Some(parent) = to.parent() {
            disk::make_dirs(&self.layout.root, parent)?;
        }
        fs::rename(from, to)?;
        disk::sync_parent(to)?;
        disk::sync_parent(from)
    }

    fn restore(&self, repo: &RepoPath) -> io::Result<bool> {
        let stamps = disk::entries(&self.layout.archive(&repo.npub))?;
        let mut stamps: Vec<u64> = stamps
            .iter()
            .filter_map(|(name, _)| name.parse().ok())
            .collect();
        stamps.sort_unstable();
        for stamp in stamps.into_iter().rev() {
            let path = self.archived(repo, stamp);
            if disk::is_real_dir(&path)? {
                self.ensure_store(&repo.identifier)?;
                self.relocate(&path, &self.layout.repository(repo))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes a directory as one step: it is moved away first.
    fn discard(&self, path: PathBuf) -> io::Result<()> {
        let away = self.layout.quarantines().join(disk::unique());
        fs::rename(&path, &away)?;
        disk::sync_parent(&path)?;
        fs::remove_dir_all(&away)
    }

    /// Removes a store that has no objects and no repository, so that announcements which never
    /// got any data leave nothing behind.
    fn remove_unused_store(&self, identifier: &Identifier) -> io::Result<()> {
        if self.is_in_use(identifier) {
            return Ok(());
        }
        let store = self.layout.store(identifier);
        let objects = store.join("objects");
        let has_objects = disk::entries(&layout::packs(&objects))?
            .iter()
            .chain(&disk::entries(&objects)?)
            .any(|(name, _)| name != "info" && name != "pack");
        if has_objects || !self.holders(identifier)?.is_empty() || !disk::is_real_dir(&store)? {
            return Ok(());
        }
        self.discard(store)?;
        self.packs_changed(identifier);
        Ok(())
    }
}
