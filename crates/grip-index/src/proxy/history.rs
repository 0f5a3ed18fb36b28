//! Walks through commit history.
//!
//! Objects are shared by all who have a repository of one identifier, so that a commit is in the
//! store says nothing about whose it is. A commit belongs to a repository if one of its branches
//! or tags leads there.
//!
//! Invariant: a walk ends after [`MAX_COMMITS`] commits, after [`MAX_TIME`], or as soon as nobody
//! waits for it.

use std::{
    collections::{BinaryHeap, HashSet},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use grip_git::{CommitFacts, RepoError, Repositories};
use grip_types::{Identifier, Oid};

const MAX_COMMITS: usize = 250_000;
const MAX_TIME: Duration = Duration::from_secs(20);

/// Why a walk found no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum WalkError {
    #[error("its history is too long to look through")]
    TooLong,
    #[error("nobody waits for it any more")]
    Stopped,
    #[error(transparent)]
    Repository(#[from] RepoError),
}

/// The history in one object store.
pub(super) struct History<'a> {
    pub(super) repositories: &'a Repositories,
    pub(super) identifier: &'a Identifier,
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

impl History<'_> {
    /// Whether one of `tips` is `commit` or has it among its ancestors.
    pub(super) fn reaches(
        &self,
        tips: impl IntoIterator<Item = Oid>,
        commit: &Oid,
    ) -> Result<bool, WalkError> {
        let tips: HashSet<Oid> = tips.into_iter().collect();
        if tips.contains(commit) {
            return Ok(true);
        }
        let mut found = false;
        self.walk(tips, |at| {
            found = at.oid == *commit || at.parents.contains(commit);
            if found {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(found)
    }

    /// The best of `candidates` that is `commit` or among its ancestors; they are in order, the
    /// best first.
    pub(super) fn first_ancestor<'c, T>(
        &self,
        commit: &Oid,
        candidates: &'c [(Oid, T)],
    ) -> Result<Option<&'c T>, WalkError> {
        let mut best = candidates.len();
        if best == 0 {
            return Ok(None);
        }
        let mut ranks: Vec<(Oid, usize)> = Vec::with_capacity(candidates.len());
        ranks.extend(
            candidates
                .iter()
                .enumerate()
                .map(|(rank, (oid, _))| (*oid, rank)),
        );
        ranks.sort_unstable();
        self.walk([*commit], |at| {
            let from = ranks.partition_point(|(oid, _)| *oid < at.oid);
            // The first of equal ids is the best of them.
            if let Some((oid, rank)) = ranks.get(from)
                && *oid == at.oid
            {
                best = best.min(*rank);
            }
            match best {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })?;
        Ok(candidates.get(best).map(|(_, candidate)| candidate))
    }

    /// Shows every commit once, the youngest of those known first, until `see` says to stop.
    fn walk(
        &self,
        tips: impl IntoIterator<Item = Oid>,
        mut see: impl FnMut(&CommitFacts) -> ControlFlow<()>,
    ) -> Result<(), WalkError> {
        let began = Instant::now();
        let mut seen = HashSet::new();
        let mut heap = BinaryHeap::new();
        let mut next: Vec<Oid> = tips.into_iter().collect();
        loop {
            for oid in next.drain(..) {
                if !seen.insert(oid) {
                    continue;
                }
                if seen.len() > MAX_COMMITS || began.elapsed() > MAX_TIME {
                    return Err(WalkError::TooLong);
                }
                if (self.is_stopped)() {
                    return Err(WalkError::Stopped);
                }
                // Tags may lead to anything; only commits have a history.
                if let Some(commit) = self.repositories.commit(self.identifier, &oid)? {
                    heap.push(Waiting(commit));
                }
            }
            let Some(Waiting(commit)) = heap.pop() else {
                return Ok(());
            };
            if see(&commit).is_break() {
                return Ok(());
            }
            next.extend(commit.parents);
        }
    }
}

/// A commit whose turn has not come, ordered by age.
struct Waiting(CommitFacts);

impl Waiting {
    fn key(&self) -> (i64, &Oid) {
        (self.0.committed_at_ms, &self.0.oid)
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}
