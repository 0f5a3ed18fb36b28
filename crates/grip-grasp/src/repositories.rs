//! Repositories on disk: made, aligned, withdrawn. Everything here blocks.

use grip_git::RefSnapshot;
use grip_nostr::{EventId, RepoAddr, State};
use grip_types::{Oid, RefEdit, RefName};

use crate::{
    admission::ViewError,
    error::GraspError,
    grasp::{Core, timestamp},
    hosted_repositories::RepositoryStatus,
    push_rules::{Refs, alignment},
};

/// How many refs a change created, moved and deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) created: usize,
    pub(crate) updated: usize,
    pub(crate) deleted: usize,
    /// HEAD went elsewhere.
    pub(crate) head: bool,
}

impl Moved {
    pub(crate) fn count(edits: &[RefEdit], head: bool) -> Self {
        let count = |matches: fn(&RefEdit) -> bool| edits.iter().filter(|e| matches(e)).count();
        Self {
            created: count(|edit| edit.old.is_none() && edit.new.is_some()),
            updated: count(|edit| edit.old.is_some() && edit.new.is_some()),
            deleted: count(|edit| edit.new.is_none()),
            head,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Core {
    /// Has a repository for `addr`: the one archived for it, or an empty one. Says whether it
    /// came out of the archive.
    pub(crate) fn ensure_repository(
        &self,
        addr: &RepoAddr,
        status: RepositoryStatus,
    ) -> Result<bool, GraspError> {
        let restored = self.commit.create_repository(addr)?;
        self.hosted.set(addr, status);
        Ok(restored)
    }

    /// Takes a repository off the net and keeps it in the archive. One that cannot be archived
    /// stays in service (G01-111).
    ///
    /// Nothing is kept of an owner who has asked to vanish (G01-120).
    pub(crate) fn archive(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        let events = self.events()?;
        if events.has_vanished(&addr.owner).map_err(ViewError::new)? {
            self.commit.destroy_repository(addr)?;
        } else {
            let stamp = timestamp().as_secs();
            self.commit.archive_repository(addr, stamp)?;
        }
        self.hosted.remove(addr);
        Ok(())
    }

    /// Removes the repository of an announcement that never got its data. What strangers pushed
    /// to `refs/nostr/` meanwhile is archived with it.
    pub(crate) fn remove_or_archive(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        if self.commit.remove_repository(addr)? {
            self.hosted.remove(addr);
            return Ok(());
        }
        self.archive(addr)
    }

    /// The refs as they are now.
    pub(crate) fn refs(&self, addr: &RepoAddr) -> Result<Refs, GraspError> {
        let snapshot = self.repositories.refs(addr);
        snapshot
            .map(|snapshot| refs_of(&snapshot))
            .map_err(GraspError::repository(addr))
    }

    /// Makes the changes in one step, if the refs are still where they were.
    pub(crate) fn change_refs(
        &self,
        addr: &RepoAddr,
        edits: &[RefEdit],
        head: Option<&RefName>,
    ) -> Result<Moved, GraspError> {
        let moved = Moved::count(edits, head.is_some());
        if !moved.is_nothing() {
            self.commit.refs(addr, edits, head)?;
        }
        if edits.iter().any(|edit| edit.name.is_tag()) {
            self.hosted.tags.add(addr);
        }
        Ok(moved)
    }

    /// Brings a repository to `state`, all of whose objects are here.
    pub(crate) fn align(&self, addr: &RepoAddr, state: &State) -> Result<Moved, GraspError> {
        let alignment = alignment(state, &self.refs(addr)?);
        if alignment.is_empty() {
            return Ok(Moved::default());
        }
        self.change_refs(addr, &alignment.edits, alignment.head.as_ref())
    }

    /// Has `refs/nostr/<event>` at `tip`.
    pub(crate) fn set_tip(
        &self,
        addr: &RepoAddr,
        event: &EventId,
        tip: Oid,
    ) -> Result<Moved, GraspError> {
        self.move_tip(addr, event, |_| Some(tip))
    }

    /// Deletes `refs/nostr/<event>` unless it is at `unless`.
    pub(crate) fn clear_tip(
        &self,
        addr: &RepoAddr,
        event: &EventId,
        unless: Option<Oid>,
    ) -> Result<Moved, GraspError> {
        self.move_tip(addr, event, |old| old.filter(|old| Some(*old) == unless))
    }

    fn move_tip(
        &self,
        addr: &RepoAddr,
        event: &EventId,
        target: impl FnOnce(Option<Oid>) -> Option<Oid>,
    ) -> Result<Moved, GraspError> {
        let name = RefName::for_nostr_event(event.as_bytes());
        let snapshot = self.repositories.refs(addr);
        let snapshot = snapshot.map_err(GraspError::repository(addr))?;
        let old = snapshot.get(&name).map(|found| found.oid);
        let new = target(old);
        if old == new {
            return Ok(Moved::default());
        }
        self.change_refs(addr, &[RefEdit { name, old, new }], None)
    }
}

pub(crate) fn refs_of(snapshot: &RefSnapshot) -> Refs {
    Refs {
        refs: snapshot.iter().map(|r| (r.name.clone(), r.oid)).collect(),
        head: snapshot.head().cloned(),
    }
}
