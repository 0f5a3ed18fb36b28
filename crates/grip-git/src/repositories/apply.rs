//! Changes that another copy has logged, made here. Blocking.
//!
//! A copy that was cut short makes the last few again: each change says what is from then on, and what a
//! later one took away is not missed.

use std::{fs, io, path::Path};

use grip_types::{Identifier, RefEdit, RefName, RepoAddr};

use super::{
    Repositories,
    archive::{borrow_in_archive, is_there},
    unreachable_objects, unreachable_repo,
};
use crate::{
    change_log::{LoggedChange, PackFile, SetRef, StagedPack, StoredPack},
    disk,
    refs::{self, RefUpdateError},
};

/// How far a logged change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    Whole,
    /// What was to go is read at the moment and stays: to make the change again removes it.
    StillRead,
}

/// Brings a file of a pack from the store of all copies.
pub type FetchPackFile<'a> = dyn Fn(&PackFile, &Path) -> io::Result<()> + 'a;

impl Repositories {
    /// Makes a change that another copy has logged; durable on return.
    pub fn apply_logged(
        &self,
        change: &LoggedChange,
        fetch: &FetchPackFile<'_>,
    ) -> Result<Applied, RefUpdateError> {
        let of_repo = |repo: &RepoAddr, done: io::Result<()>| {
            done.map_err(|source| unreachable_repo(repo, source))
        };
        match change {
            LoggedChange::Pack { identifier, pack } => self
                .add_pack(identifier, pack, fetch)
                .map_err(|source| unreachable_objects(identifier, source))?,
            LoggedChange::ReplacePacks {
                identifier,
                added,
                removed,
                is_collected,
            } => self
                .replace_packs(identifier, (added, removed), *is_collected, fetch)
                .map_err(|source| unreachable_objects(identifier, source))?,
            LoggedChange::RemoveStore { identifier } => {
                let is_gone = self.remove_store(identifier)? || !self.has_store(identifier)?;
                if !is_gone {
                    let followed = self.leave_store(identifier);
                    followed.map_err(|source| unreachable_objects(identifier, source))?;
                    return Ok(Applied::StillRead);
                }
            }
            LoggedChange::Create { repo } => self.create(repo)?,
            LoggedChange::Refs {
                repo,
                refs,
                head,
                staged,
            } => {
                for pack in staged {
                    of_repo(repo, self.add_staged(repo, pack, fetch))?;
                }
                self.set_refs(repo, refs, head.as_ref())?;
            }
            LoggedChange::ClearRefs { repo } => of_repo(repo, self.clear_refs(repo))?,
            LoggedChange::Archive { repo, stamp } => {
                of_repo(repo, self.archive_at(repo, *stamp))?;
            }
            LoggedChange::Restore { repo, stamp } => {
                of_repo(repo, self.restore_from(repo, *stamp))?;
            }
            LoggedChange::Remove { repo } => self.remove(repo)?,
            LoggedChange::RemoveArchive { repo, stamp } => {
                let _turn = self.inner.lock(&repo.identifier);
                of_repo(repo, self.inner.remove_archive(repo, *stamp))?;
            }
        }
        Ok(Applied::Whole)
    }

    fn has_store(&self, identifier: &Identifier) -> Result<bool, RefUpdateError> {
        let has = disk::is_real_dir(&self.inner.layout.store(identifier));
        Ok(has.map_err(|source| unreachable_objects(identifier, source))?)
    }

    /// Has nobody count on what is in a store that is to go.
    fn leave_store(&self, identifier: &Identifier) -> io::Result<()> {
        let packs = &self.inner.packs;
        if !packs.is_cached() {
            return Ok(());
        }
        let _turn = self.inner.lock(identifier);
        packs.follow_removal(identifier)
    }

    fn add_pack(
        &self,
        identifier: &Identifier,
        pack: &StoredPack,
        fetch: &FetchPackFile<'_>,
    ) -> io::Result<()> {
        let (inner, name) = (&self.inner, &pack.name);
        if inner.packs.is_cached() {
            let _turn = inner.lock(identifier);
            return inner.packs.note_missing(identifier, pack);
        }
        if inner.packs.has(identifier, name) {
            return Ok(());
        }
        self.fetched(name, &pack.files, fetch, |from| {
            let _turn = inner.lock(identifier);
            inner.packs.add(identifier, name, from)
        })
    }

    fn replace_packs(
        &self,
        identifier: &Identifier,
        (added, removed): (&[StoredPack], &[String]),
        is_collected: bool,
        fetch: &FetchPackFile<'_>,
    ) -> io::Result<()> {
        let packs = &self.inner.packs;
        if packs.is_cached() {
            let _turn = self.inner.lock(identifier);
            return packs.follow_replacement(identifier, added, removed, is_collected);
        }
        for pack in added {
            self.add_pack(identifier, pack, fetch)?;
        }
        let _turn = self.inner.lock(identifier);
        packs.remove_named(identifier, removed)
    }

    fn add_staged(
        &self,
        repo: &RepoAddr,
        staged: &StagedPack,
        fetch: &FetchPackFile<'_>,
    ) -> io::Result<()> {
        let (inner, pack) = (&self.inner, &staged.upload.pack);
        if inner.find(repo).map_err(io::Error::other)?.is_none() {
            // A later change takes it away.
            return Ok(());
        }
        let is_here = inner.has_staged(repo, pack);
        let files = if is_here { &[] } else { &staged.files[..] };
        self.fetched(pack, files, fetch, |from| {
            let _turn = inner.lock(&repo.identifier);
            inner.take_over_staged(repo, staged, (!is_here).then_some(from))
        })
    }

    /// Has `take` move durable files of a pack out of the directory that they were fetched into.
    fn fetched(
        &self,
        name: &str,
        files: &[PackFile],
        fetch: &FetchPackFile<'_>,
        take: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let room = self.inner.layout.quarantines().join(disk::unique());
        fs::create_dir(&room)?;
        let fetched = files.iter().try_for_each(|file| {
            let path = room.join(format!("{name}.{}", file.extension));
            fetch(file, &path)?;
            fs::File::open(&path)?.sync_all()
        });
        let taken = fetched.and_then(|()| take(&room));
        // Best effort: the next start empties the quarantine.
        let _ = fs::remove_dir_all(&room);
        taken
    }

    fn set_refs(
        &self,
        repo: &RepoAddr,
        refs: &[SetRef],
        head: Option<&RefName>,
    ) -> Result<(), RefUpdateError> {
        if self.inner.find(repo)?.is_none() {
            // A later change takes it away.
            return Ok(());
        }
        let current = self.refs(repo)?;
        let all = current.all();
        let edit = |set: &SetRef| {
            let known = all.binary_search_by(|known| known.name.cmp(&set.name));
            RefEdit {
                name: set.name.clone(),
                old: known.ok().map(|at| all[at].oid),
                new: set.oid,
            }
        };
        let edits: Vec<RefEdit> = refs.iter().map(edit).collect();
        self.change_refs(repo, &edits, head, None, Some(refs))
            .map(drop)
    }

    fn clear_refs(&self, repo: &RepoAddr) -> io::Result<()> {
        let _turn = self.inner.lock(&repo.identifier);
        self.inner.forget(repo);
        let path = self.inner.layout.repository(repo);
        if !disk::is_real_dir(&path)? {
            return Ok(());
        }
        disk::replace(&path.join("packed-refs"), &refs::write(&[]))
    }

    fn archive_at(&self, repo: &RepoAddr, stamp: u64) -> io::Result<()> {
        let inner = &self.inner;
        let _turn = inner.lock(&repo.identifier);
        inner.forget(repo);
        let (path, target) = (inner.layout.repository(repo), inner.archived(repo, stamp));
        let is_archived = is_there(target.clone())?;
        if !is_archived && disk::is_real_dir(&path)? {
            inner.relocate(&path, &target)?;
        } else if disk::is_real_dir(&path)? {
            // What is in its place came later, and comes again.
            inner.discard(repo, &path)?;
        }
        if disk::is_real_dir(&target)? {
            borrow_in_archive(&target, &repo.identifier)?;
        }
        Ok(())
    }

    fn restore_from(&self, repo: &RepoAddr, stamp: u64) -> io::Result<()> {
        let inner = &self.inner;
        let _turn = inner.lock(&repo.identifier);
        inner.forget(repo);
        let (path, archived) = (inner.layout.repository(repo), inner.archived(repo, stamp));
        if !disk::is_real_dir(&archived)? {
            // It was brought back before.
            return Ok(());
        }
        if disk::is_real_dir(&path)? {
            inner.discard(repo, &path)?;
        }
        inner.bring_back(repo, &archived)
    }

    /// Says whether nothing is kept here.
    pub fn is_empty(&self) -> io::Result<bool> {
        let (archives, unknown) = self.archives()?;
        let has_archives = unknown > 0 || !archives.is_empty();
        Ok(!has_archives && self.list()?.is_empty() && self.stores()?.is_empty())
    }
}
