//! Repositories on disk: made, aligned, withdrawn. Everything here blocks.

use std::fmt;

use grip_git::{Discarded, Prepared, RefSnapshot, RepoError};
use grip_nostr::{Event, EventId, RepoAddr, State};
use grip_types::{Oid, RefEdit, RefName};

use crate::{
    admission::ViewError,
    error::GraspError,
    grasp::{Core, timestamp},
    hosted_repositories::RepositoryStatus,
    push_rules::{Refs, alignment},
    summary::npub,
};

/// Refs that one line of the log names; a change of more has more lines.
const MAX_LOGGED: usize = 10;

/// What changes refs, for the log.
pub(crate) enum ChangedBy<'a> {
    /// A push, and the state that allows it.
    Push(Option<&'a Event>),
    State(&'a Event),
    PullRequest(&'a EventId),
    /// A pull request goes out of service and is kept.
    Held(&'a EventId),
    /// One that was kept comes back.
    Returned(&'a EventId),
    /// They were not what the served events say.
    Agreement,
}

impl<'a> ChangedBy<'a> {
    /// The state that the change comes from.
    fn state(&self) -> Option<&'a Event> {
        match self {
            Self::Push(state) => *state,
            Self::State(state) => Some(state),
            Self::PullRequest(_) | Self::Held(_) | Self::Returned(_) | Self::Agreement => None,
        }
    }
}

impl fmt::Display for ChangedBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push(Some(state)) => {
                write!(f, "push by state {} of {}", state.id, npub(&state.pubkey))
            }
            Self::Push(None) => f.write_str("push ahead of its event"),
            Self::State(state) => write!(f, "state {} of {}", state.id, npub(&state.pubkey)),
            Self::PullRequest(event) => write!(f, "pull request {event}"),
            Self::Held(event) => write!(f, "pull request {event} out of service"),
            Self::Returned(event) => write!(f, "pull request {event} back in service"),
            Self::Agreement => f.write_str("agreement with the served events"),
        }
    }
}

/// Leaves a change in the log, every ref of it, in lines that stay short. Who caused it, by which event and
/// from where, say the spans: of the event, and of its client, its relay or the host of its data.
pub(crate) fn log_refs(
    addr: &RepoAddr,
    edits: &[RefEdit],
    head: Option<&RefName>,
    by: &ChangedBy<'_>,
) {
    let head = head.map(RefName::as_str);
    for refs in in_words(edits) {
        tracing::info!(repository = %addr, refs, head, %by, "refs changed");
    }
}

/// `refs/heads/main 1f2e… → 3d4c…`, a few in each text; one that is empty where HEAD alone moves.
fn in_words(edits: &[RefEdit]) -> Vec<String> {
    let short = |oid: &Option<Oid>| {
        let hex = oid.as_ref().map(Oid::to_hex);
        hex.map_or("none".to_owned(), |hex| hex[..10].to_owned())
    };
    let edit =
        |edit: &RefEdit| format!("{} {} → {}", edit.name, short(&edit.old), short(&edit.new));
    let line = |edits: &[RefEdit]| edits.iter().map(edit).collect::<Vec<_>>().join(", ");
    let first = edits.get(..MAX_LOGGED).unwrap_or(edits);
    let rest = &edits[first.len()..];
    std::iter::once(first)
        .chain(rest.chunks(MAX_LOGGED))
        .map(line)
        .collect()
}

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
    /// Has a repository for `addr`: the one archived for it, or an empty one, which may be `prepared`.
    /// Says whether it came out of the archive.
    pub(crate) fn ensure_repository(
        &self,
        addr: &RepoAddr,
        status: RepositoryStatus,
        prepared: Option<Prepared>,
    ) -> Result<bool, GraspError> {
        let restored = self.commit.create_repository(addr, prepared)?;
        self.hosted.set(addr, status);
        Ok(restored)
    }

    /// Takes a repository off the net and keeps it in the archive. One that cannot be archived
    /// stays in service (G01-111).
    ///
    /// Nothing is kept of an owner who is about to vanish (G01-120). Who came back after it has an
    /// archive as everybody else.
    pub(crate) fn archive(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        let events = self.events()?;
        if events.is_vanishing(&addr.owner).map_err(ViewError::new)? {
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
        let taken = self.take_or_archive(addr)?;
        taken.map_or(Ok(()), |taken| remove_taken(addr, taken))
    }

    /// The same, but its files are left to the caller, who removes them where nobody waits.
    pub(crate) fn take_or_archive(&self, addr: &RepoAddr) -> Result<Option<Discarded>, GraspError> {
        match self.commit.take_repository(addr) {
            Ok(taken) => {
                self.hosted.remove(addr);
                Ok(taken)
            }
            Err(RepoError::NotEmpty(_)) => self.archive(addr).map(|()| None),
            Err(error) => Err(GraspError::repository(addr)(error)),
        }
    }

    /// The refs as they are now.
    pub(crate) fn refs(&self, addr: &RepoAddr) -> Result<Refs, GraspError> {
        let snapshot = self.repositories.refs(addr);
        snapshot
            .map(|snapshot| refs_of(&snapshot))
            .map_err(GraspError::repository(addr))
    }

    /// Makes the changes in one step, if the refs are still where they were. Those of an archived repository are recorded with the state that they come from.
    pub(crate) fn change_refs(
        &self,
        addr: &RepoAddr,
        edits: &[RefEdit],
        head: Option<&RefName>,
        by: ChangedBy<'_>,
    ) -> Result<Moved, GraspError> {
        let moved = Moved::count(edits, head.is_some());
        if !moved.is_nothing() {
            match self.move_record(addr, by.state())? {
                Some(record) => self.commit.refs_recorded(addr, edits, head, &record)?,
                None => self.commit.refs(addr, edits, head)?,
            }
            log_refs(addr, edits, head, &by);
        }
        if edits.iter().any(|edit| edit.name.is_tag()) {
            self.hosted.tags.add(addr);
        }
        Ok(moved)
    }

    /// Says whether the branches, tags and HEAD of a repository are as `state` says.
    pub(crate) fn is_aligned(&self, addr: &RepoAddr, state: &State) -> Result<bool, GraspError> {
        Ok(alignment(state, &self.refs(addr)?).is_empty())
    }

    /// Brings a repository to `state`, all of whose objects are here.
    pub(crate) fn align(&self, addr: &RepoAddr, state: &State) -> Result<Moved, GraspError> {
        let alignment = alignment(state, &self.refs(addr)?);
        if alignment.is_empty() {
            return Ok(Moved::default());
        }
        let (edits, head) = (&alignment.edits, alignment.head.as_ref());
        self.change_refs(addr, edits, head, ChangedBy::State(&state.event))
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
        let edit = RefEdit { name, old, new };
        self.change_refs(addr, &[edit], None, ChangedBy::PullRequest(event))
    }
}

/// Removes the files of a repository that was taken out of its place. Blocks.
pub(crate) fn remove_taken(addr: &RepoAddr, taken: Discarded) -> Result<(), GraspError> {
    let removed = taken.remove().map_err(|source| RepoError::Io {
        repo: addr.clone(),
        source,
    });
    removed.map_err(GraspError::repository(addr))
}

pub(crate) fn refs_of(snapshot: &RefSnapshot) -> Refs {
    Refs {
        refs: snapshot.iter().map(|r| (r.name.clone(), r.oid)).collect(),
        head: snapshot.head().cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_every_ref_of_a_change_in_lines_of_a_few() {
        let edit = |n: usize| RefEdit {
            name: RefName::parse(&format!("refs/heads/b{n}")).unwrap(),
            old: None,
            new: Some(format!("{n:040x}").parse().unwrap()),
        };
        for (count, lines) in [(0, 1), (1, 1), (10, 1), (11, 2), (25, 3)] {
            let edits: Vec<RefEdit> = (0..count).map(edit).collect();
            let logged = in_words(&edits);
            assert_eq!(logged.len(), lines, "{count}");
            let named: Vec<&str> = logged.iter().flat_map(|line| line.split(", ")).collect();
            let named = named.into_iter().filter(|text| !text.is_empty());
            let said = named.map(|text| text.split(' ').next().unwrap_or_default());
            let expected: Vec<String> = edits.iter().map(|edit| edit.name.to_string()).collect();
            assert_eq!(said.collect::<Vec<_>>(), expected);
        }
    }
}
