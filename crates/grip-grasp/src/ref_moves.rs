//! Moves of refs in archived repositories: what is recorded, for how long, and how it is listed.
//!
//! An archive follows what owners say now, rewrites and deletions included, and keeps what they said
//! before: each tip that a branch or tag loses stays under a hidden ref, and can be fetched by its id.

use std::{collections::BTreeMap, sync::Arc};

use grip_git::{MoveRecord, RefChange, RefMove, RefSnapshot};
use grip_nostr::{Address, Announcement, Event, RepoAddr};
use grip_types::{Identifier, Oid, RefEdit, RefName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Grasp, LookError,
    admission::{View as _, ViewError},
    error::GraspError,
    grasp::{Core, now},
    node_view::NodeView,
    repositories::ChangedBy,
    summary::npub,
};

/// The source of what no state says: a repair, or the end of the last state.
const REPAIR: &str = "repair";

/// The recorded moves of one repository, newest first.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ListedMoves {
    /// All there are, of which `moves` may be a part.
    pub total: usize,
    pub moves: Vec<ListedMove>,
}

/// A recorded move.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ListedMove {
    /// Unix milliseconds, by the clock of this node.
    pub at: u64,
    pub name: RefName,
    /// None where the ref was created.
    pub from: Option<Oid>,
    /// None where it was deleted.
    pub to: Option<Oid>,
    /// The state that said so, and who signed it; none for a repair.
    pub state: Option<String>,
    pub author: Option<String>,
}

impl Grasp {
    /// The recorded moves of a repository, newest first, those after `skip` and at most `limit`; none
    /// if it is not here.
    pub async fn ref_moves(
        &self,
        addr: &RepoAddr,
        skip: usize,
        limit: usize,
    ) -> Result<Option<ListedMoves>, LookError> {
        let addr = addr.clone();
        let look = move |core: &Core| {
            if core.hosted.status(&addr).is_none() {
                return Ok(None);
            }
            let refs = core.repositories.refs(&addr);
            let refs = refs.map_err(GraspError::repository(&addr))?;
            Ok::<_, GraspError>(Some(list(&refs, skip, limit)))
        };
        Ok(self.core.blocking("grasp.look", look).await??)
    }
}

fn list(refs: &RefSnapshot, skip: usize, limit: usize) -> ListedMoves {
    let mut moves: Vec<RefMove> = refs.moves().collect();
    moves.sort_by_key(|it| it.at);
    let total = moves.len();
    // What a ref was moved to is what its next record, or the ref itself, has.
    let mut next: BTreeMap<RefName, Oid> = BTreeMap::new();
    let mut listed = Vec::new();
    for (index, it) in moves.into_iter().rev().enumerate() {
        let is_shown = index >= skip && listed.len() < limit;
        let after = || {
            let now = || refs.get(&it.name).map(|found| found.oid);
            next.get(&it.name).copied().or_else(now)
        };
        if is_shown {
            let (from, to) = match it.change {
                RefChange::Created => (None, Some(it.tip)),
                RefChange::Moved => (Some(it.tip), after()),
                RefChange::Deleted => (Some(it.tip), None),
            };
            let (state, author) = read_source(&it.source).unzip();
            listed.push(ListedMove {
                at: it.at,
                name: it.name.clone(),
                from,
                to,
                state,
                author,
            });
        }
        match it.change {
            // Whatever came before was another ref of this name.
            RefChange::Created => next.remove(&it.name),
            RefChange::Moved | RefChange::Deleted => next.insert(it.name, it.tip),
        };
    }
    ListedMoves {
        total,
        moves: listed,
    }
}

/// The state that made a change, as a source: its id and its author.
fn source(state: &Event) -> String {
    let (id, author) = (state.id.to_hex(), state.pubkey.to_hex());
    format!("{id}.{author}")
}

fn read_source(source: &str) -> Option<(String, String)> {
    let (id, author) = source.split_once('.')?;
    let author = grip_nostr::PublicKey::from_hex(author).ok()?;
    Some((id.to_owned(), npub(&author)))
}

impl Core {
    /// How a change of the refs of `addr` is recorded; none where it is not archived. Blocks.
    pub(crate) fn move_record(
        &self,
        addr: &RepoAddr,
        by: Option<&Event>,
    ) -> Result<Option<MoveRecord>, ViewError> {
        if !self.is_archived(addr)? {
            return Ok(None);
        }
        let retention = self.policy.load().archive.retention;
        let at = u64::try_from(now().get()).unwrap_or(0);
        let kept = retention.time.map(|time| time.as_millis() as u64);
        Ok(Some(MoveRecord {
            at,
            source: by.map_or_else(|| REPAIR.to_owned(), source),
            keep_since: kept.map_or(0, |kept| at.saturating_sub(kept)),
            keep_max: retention.tips,
        }))
    }

    /// Says whether the operator archives a repository that is announced here. Blocks.
    pub(crate) fn is_archived(&self, addr: &RepoAddr) -> Result<bool, ViewError> {
        let policy = self.policy.load();
        if policy.archive.mode.is_none() {
            return Ok(false);
        }
        let events = self.events()?;
        let served = NodeView::new(self, &events).latest(&Address::of_announcement(addr))?;
        let held = || {
            let purgatory = self.purgatory.lock();
            let entry = purgatory.find_announcement(addr);
            entry.map(|entry| entry.held.event.unpack())
        };
        let selects = |event: Event| {
            let parsed = Announcement::parse(event);
            parsed.is_ok_and(|announcement| policy.archive.selects(&announcement))
        };
        // One that is about to be served is neither yet.
        Ok(served.or_else(held).is_none_or(selects))
    }

    /// Deletes the branches and tags of an archived repository that no state speaks for any more, and
    /// keeps their tips. Blocks.
    pub(crate) fn delete_state_refs(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        let current = self.refs(addr)?;
        let state_refs = current.refs.into_iter().filter(|(n, _)| n.is_state_ref());
        let edits = state_refs.map(|(name, oid)| RefEdit {
            name,
            old: Some(oid),
            new: None,
        });
        let edits: Vec<RefEdit> = edits.collect();
        self.change_refs(addr, &edits, None, ChangedBy::Agreement)
            .map(drop)
    }

    /// Drops the records of an identifier that are older than they are kept.
    pub(crate) async fn prune_ref_moves(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<(), GraspError> {
        let is_pruned = {
            let archive = &self.policy.load().archive;
            archive.mode.is_some() && archive.retention.time.is_some()
        };
        if !is_pruned {
            return Ok(());
        }
        let _turns = self.turns(vec![identifier.clone()]).await?;
        let identifier = identifier.clone();
        let prune = move |core: &Self| {
            for owner in core.hosted.owners(&identifier).into_keys() {
                let addr = RepoAddr::new(owner, identifier.clone());
                let has_moves = core.repositories.refs(&addr);
                let has_moves = has_moves.is_ok_and(|refs| refs.moves().next().is_some());
                if has_moves && let Some(record) = core.move_record(&addr, None)? {
                    core.commit.refs_recorded(&addr, &[], None, &record)?;
                }
            }
            Ok(())
        };
        self.blocking("git.refs", prune).await?
    }
}
