//! Archiving, restoring and removing repositories, and removing the stores that none of them uses.
//!
//! An archived repository keeps its objects in the store.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use grip_tasks::fault;
use grip_types::{Identifier, RepoAddr};

use crate::{change_log::LoggedChange, disk, layout};

use super::{Inner, RepoError, Repositories, unreachable_objects, unreachable_repo};

/// A file that is written and removed to see whether an archive can be written.
const PROBE: &str = ".probe";

impl Repositories {
    /// Moves a repository out of sight; `stamp` (unix seconds, say) tells several of one name apart. It
    /// is counted up where one of that name went at the same moment.
    ///
    /// No error if it is not there. What is staged in it is not kept.
    pub fn archive(&self, repo: &RepoAddr, stamp: u64) -> Result<(), RepoError> {
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.forget(repo);
        let Some(path) = self.inner.find(repo)? else {
            return Ok(());
        };
        self.inner.drop_staged(repo)?;
        let free = self.inner.free_archive(repo, stamp);
        let (stamp, target) = free.map_err(|source| unreachable_repo(repo, source))?;
        let change = || LoggedChange::Archive {
            repo: repo.clone(),
            stamp,
        };
        let archived = self.inner.options.log.before(change, || {
            let archived = self.inner.relocate(&path, &target);
            fault::point("git.archive.moved");
            self.inner.remove_idle_owner(repo);
            // Last: one that a crash leaves without is given it by the start or by its return.
            archived.and_then(|()| borrow_in_archive(&target, &repo.identifier))
        });
        archived.map_err(|source| unreachable_repo(repo, source))
    }

    /// Brings back what was archived last under this name; `false` if nothing was, or if there is
    /// a repository of that name.
    pub fn restore(&self, repo: &RepoAddr) -> Result<bool, RepoError> {
        let _turn = self.inner.lock(&repo.identifier);
        if self.inner.find(repo)?.is_some() {
            return Ok(false);
        }
        let restored = self.inner.restore(repo);
        restored.map_err(|source| unreachable_repo(repo, source))
    }

    /// Says whether a repository could be archived now (G01-111). Blocking.
    pub fn check_archive(&self, repo: &RepoAddr) -> Result<(), RepoError> {
        let place = self.inner.layout.archive(&repo.npub());
        let probe = place.join(PROBE);
        let tried = disk::make_dirs(&self.inner.layout.root, &place).and_then(|()| {
            fs::write(&probe, [])?;
            fs::remove_file(&probe)
        });
        tried.map_err(|source| unreachable_repo(repo, source))
    }

    /// Every archived repository, and how many entries of the archive cannot be told. Blocking.
    pub fn archives(&self) -> io::Result<(Vec<Archived>, usize)> {
        let (mut found, mut unknown) = (Vec::new(), 0);
        self.inner.each_archive(|path| {
            let stamp = name_of(&path).and_then(|name| name.parse().ok());
            let npub = path.parent().and_then(name_of).unwrap_or_default();
            for (name, _) in disk::entries(&path)? {
                let repo = RepoAddr::from_segments(npub, &name);
                match (repo, stamp) {
                    (Some(repo), Some(stamp)) => found.push(Archived { repo, stamp }),
                    _ => unknown += 1,
                }
            }
            Ok(false)
        })?;
        Ok((found, unknown))
    }

    /// Removes an archived repository for good. Blocking.
    pub fn remove_archive(&self, archived: &Archived) -> Result<(), RepoError> {
        let Archived { repo, stamp } = archived;
        let _turn = self.inner.lock(&repo.identifier);
        let change = || LoggedChange::RemoveArchive {
            repo: repo.clone(),
            stamp: *stamp,
        };
        let log = &self.inner.options.log;
        let removed = log.before(change, || self.inner.remove_archive(repo, *stamp));
        removed.map_err(|source| unreachable_repo(repo, source))
    }

    /// Puts a repository that another server archived into the archive: its objects go into the store,
    /// and what lies at `from`, a bare repository on the same disk, is moved. `false` if it is there
    /// already. Blocking.
    pub fn adopt_archived(&self, archived: &Archived, from: &Path) -> Result<bool, RepoError> {
        let Archived { repo, stamp } = archived;
        let _turn = self.inner.lock(&repo.identifier);
        let target = self.inner.archived(repo, *stamp);
        let is_known = is_there(target.clone());
        if is_known.map_err(|source| unreachable_repo(repo, source))? {
            return Ok(false);
        }
        // Whatever fails before the last step leaves objects that nothing needs, and no archive.
        let adopted = self.inner.adopt(repo, from);
        adopted.map_err(|source| RepoError::Adopt {
            repo: repo.clone(),
            source,
        })?;
        let moved = borrow_in_archive(from, &repo.identifier).and_then(|()| {
            fault::point("git.archive.adopted");
            self.inner.relocate(&from.to_owned(), &target)
        });
        moved.map_err(|source| unreachable_repo(repo, source))?;
        Ok(true)
    }

    /// The identifiers that have an object store. Blocking.
    pub fn stores(&self) -> io::Result<BTreeSet<Identifier>> {
        self.inner.packs.identifiers()
    }

    /// What lies among the object stores and is named as none is. Blocking.
    pub fn foreign_stores(&self) -> io::Result<Vec<String>> {
        let known = self.inner.packs.identifiers()?;
        let known: BTreeSet<String> = known.iter().map(layout::directory).collect();
        let entries = disk::entries(&self.inner.layout.stores())?;
        let names = entries.into_iter().map(|(name, _)| name);
        Ok(names.filter(|name| !known.contains(name)).collect())
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
        let inner = &self.inner;
        let turn = inner.lock(identifier);
        let mut logged = None;
        let is_needed = || {
            if !inner.bearers(identifier)?.is_empty() || inner.has_archived(identifier)? {
                return Ok(true);
            }
            let identifier = identifier.clone();
            let change = || LoggedChange::RemoveStore { identifier };
            // The last thing asked before the store goes.
            logged = Some(inner.options.log.begin(change)?);
            Ok(false)
        };
        let removed = inner.packs.take_away(identifier, is_needed);
        if let Some(logged) = logged {
            logged.end(&removed);
        }
        drop(turn);
        let removed = removed.map_err(|source| unreachable_objects(identifier, source))?;
        let Some(away) = removed else {
            return Ok(false);
        };
        // Without the lock: to remove many files takes a while.
        if let Err(error) = fs::remove_dir_all(&away) {
            tracing::warn!(path = %away.display(), %error, "failed to remove objects; the next start removes them");
        }
        Ok(true)
    }
}

/// A repository in the archive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Archived {
    pub repo: RepoAddr,
    /// When it was archived, in unix seconds.
    pub stamp: u64,
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

impl Inner {
    pub(super) fn remove_archive(&self, repo: &RepoAddr, stamp: u64) -> io::Result<()> {
        let path = self.archived(repo, stamp);
        if is_there(path.clone())? {
            let away = disk::move_away(&path, &self.layout.quarantines())?;
            fault::point("git.archive.away");
            fs::remove_dir_all(away)?;
        }
        // The directory of the time, unless others were archived in that second.
        if let Some(parent) = path.parent() {
            drop(fs::remove_dir(parent));
        }
        Ok(())
    }

    pub(super) fn archived(&self, repo: &RepoAddr, stamp: u64) -> PathBuf {
        let archive = self.layout.archive(&repo.npub());
        archive
            .join(stamp.to_string())
            .join(layout::directory(&repo.identifier))
    }

    /// The place in the archive for `stamp`, or the first after it that is free.
    fn free_archive(&self, repo: &RepoAddr, mut stamp: u64) -> io::Result<(u64, PathBuf)> {
        loop {
            let path = self.archived(repo, stamp);
            if !is_there(path.clone())? {
                return Ok((stamp, path));
            }
            stamp += 1;
        }
    }

    pub(super) fn relocate(&self, from: &PathBuf, to: &PathBuf) -> io::Result<()> {
        if let Some(parent) = to.parent() {
            disk::make_dirs(&self.layout.root, parent)?;
        }
        fs::rename(from, to)?;
        disk::sync_parent(to)?;
        // The directory of an owner goes with the last repository in it.
        from.parent().map_or(Ok(()), disk::sync_dir_if_there)
    }

    fn restore(&self, repo: &RepoAddr) -> io::Result<bool> {
        let stamps = disk::entries(&self.layout.archive(&repo.npub()))?;
        let mut stamps: Vec<u64> = stamps
            .iter()
            .filter_map(|(name, _)| name.parse().ok())
            .collect();
        stamps.sort_unstable();
        for stamp in stamps.into_iter().rev() {
            let path = self.archived(repo, stamp);
            if disk::is_real_dir(&path)? {
                let change = || LoggedChange::Restore {
                    repo: repo.clone(),
                    stamp,
                };
                self.options
                    .log
                    .before(change, || self.bring_back(repo, &path))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves what lies at `path` in the archive to where it is served.
    pub(super) fn bring_back(&self, repo: &RepoAddr, path: &PathBuf) -> io::Result<()> {
        self.packs.ensure(&repo.identifier)?;
        // First: what is in its place must find its objects.
        borrow(path, &layout::alternates(&repo.identifier))?;
        fault::point("git.restore.borrowed");
        let target = self.layout.repository(repo);
        self.in_owner_directory(repo, || self.relocate(path, &target))?;
        fault::point("git.restore.moved");
        Ok(())
    }

    /// Has every archived repository find its objects where it lies.
    pub(super) fn repair_archive(&self) -> io::Result<()> {
        self.each_archive(|path| {
            for (name, _) in disk::entries(&path)? {
                let path = path.join(&name);
                if let Some(identifier) = layout::identifier_of(&name)
                    && disk::is_real_dir(&path)?
                {
                    borrow_in_archive(&path, &identifier)?;
                }
            }
            Ok(false)
        })?;
        Ok(())
    }

    /// The repositories of an identifier: whatever bears the name counts, and doubt is an error.
    pub(super) fn bearers(&self, identifier: &Identifier) -> io::Result<Vec<RepoAddr>> {
        let mut found = Vec::new();
        for (npub, kind) in disk::entries(&self.layout.root)? {
            if kind.is_file() || !layout::is_npub(&npub) {
                continue;
            }
            let path = self.layout.owner(&npub).join(layout::directory(identifier));
            if is_there(path)? {
                let owner = RepoAddr::parse_npub(&npub).ok_or(io::ErrorKind::InvalidData)?;
                found.push(RepoAddr::new(owner, identifier.clone()));
            }
        }
        Ok(found)
    }

    /// Every archived repository with its stamp and its directory; doubt is an error.
    pub(super) fn each_archived(
        &self,
        mut each: impl FnMut(&RepoAddr, u64, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        self.each_archive(|path| {
            let stamp = path
                .file_name()
                .and_then(|stamp| stamp.to_str()?.parse().ok());
            let stamp = stamp.ok_or_else(invalid)?;
            let npub = path.parent().and_then(|owner| owner.file_name()?.to_str());
            let owner = npub.and_then(RepoAddr::parse_npub).ok_or_else(invalid)?;
            for (name, _) in disk::entries(&path)? {
                let identifier = layout::identifier_of(&name).ok_or_else(invalid)?;
                let repo = RepoAddr::new(owner, identifier);
                each(&repo, stamp, &path.join(name))?;
            }
            Ok(false)
        })?;
        Ok(())
    }

    fn has_archived(&self, identifier: &Identifier) -> io::Result<bool> {
        let name = layout::directory(identifier);
        self.each_archive(|path| is_there(path.join(&name)))
    }

    /// Looks into every directory that archived repositories are in, until `look` finds it.
    fn each_archive(&self, mut look: impl FnMut(PathBuf) -> io::Result<bool>) -> io::Result<bool> {
        let archive = self.layout.root.join(".archive");
        for (npub, kind) in disk::entries(&archive)? {
            if !kind.is_dir() || !layout::is_npub(&npub) {
                continue;
            }
            let of_owner = archive.join(npub);
            for (stamp, _) in disk::entries(&of_owner)? {
                // See `check_archive`; a crash may leave it.
                if stamp == PROBE {
                    continue;
                }
                if look(of_owner.join(stamp))? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

pub(super) fn borrow_in_archive(path: &Path, identifier: &Identifier) -> io::Result<()> {
    borrow(path, &layout::archived_alternates(identifier))
}

/// Has the repository at `path` find the objects of its store.
fn borrow(path: &Path, alternates: &str) -> io::Result<()> {
    let file = path.join("objects/info/alternates");
    if disk::read(&file)?.as_deref() == Some(alternates.as_bytes()) {
        return Ok(());
    }
    disk::make_dirs(path, &path.join("objects/info"))?;
    disk::replace(&file, alternates.as_bytes())
}

/// Says whether anything is there, a symbolic link too.
pub(super) fn is_there(path: PathBuf) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if disk::is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
