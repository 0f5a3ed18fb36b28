//! Unseen data of another server, moved in with its operator's repositories: versions that others
//! replaced, removed events and repositories, and the times of requests to delete and to vanish (L-7).
//!
//! Nothing of it is served by this: each comes back the way it would if it had been kept here, through
//! today's rules. Every step can be repeated.

use std::{path::PathBuf, sync::Arc};

use grip_git::Archived;
use grip_nostr::{Event, EventId, PublicKey, RepoAddr, Timestamp};
use grip_store::Kept;

use crate::{
    Grasp, LookError,
    admission::ViewError,
    error::GraspError,
    grasp::{Core, timestamp},
    holding::HoldingReason,
};

/// A removed event with what is known of its removal.
#[derive(Clone, Debug)]
pub struct RemovedEvent {
    pub event: Event,
    /// The repository it hung on.
    pub repository: Option<RepoAddr>,
    pub reason: HoldingReason,
    pub removed_at: Timestamp,
}

/// When a request was first seen, and when it was of use for the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimes {
    pub request: EventId,
    pub first_seen: Timestamp,
    pub last_used: Option<Timestamp>,
}

/// What became of a removed event or repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenBack {
    Stored,
    /// It is kept already, or it is served or waits: it has come back.
    Duplicate,
    /// It was removed longer ago than anything is kept.
    TooOld,
    /// Its author has asked to vanish.
    Vanished,
}

impl Grasp {
    /// Keeps versions of announcements and states that were replaced; says of each what became of it.
    pub async fn take_replaced(&self, versions: Vec<Event>) -> Result<Vec<Kept>, LookError> {
        Ok(self.core.commit.keep_versions(versions).await?)
    }

    /// Has requests go on where they were; says of how many the times changed.
    pub async fn take_request_times(&self, times: Vec<RequestTimes>) -> Result<usize, LookError> {
        Ok(self.core.commit.backdate_requests(times).await?)
    }

    /// Keeps a removed event until the end of its time.
    pub async fn take_removed(&self, removed: RemovedEvent) -> Result<TakenBack, LookError> {
        Ok(self.core.take_removed(removed).await?)
    }

    /// Puts a removed repository into the archive until the end of its time. What lies at `from`, below
    /// the root of the repositories, is used up by it.
    pub async fn take_archive(
        &self,
        archived: Archived,
        from: PathBuf,
    ) -> Result<TakenBack, LookError> {
        Ok(self.core.take_archive(archived, from).await?)
    }
}

impl Core {
    async fn take_removed(
        self: &Arc<Self>,
        removed: RemovedEvent,
    ) -> Result<TakenBack, GraspError> {
        let RemovedEvent {
            event,
            repository,
            reason,
            removed_at,
        } = removed;
        // A clock that went ahead must not prolong it.
        let removed_at = removed_at.min(timestamp()).as_secs();
        if self.is_too_old(removed_at) {
            return Ok(TakenBack::TooOld);
        }
        if self.holding.has(&event.id).await? {
            return Ok(TakenBack::Duplicate);
        }
        let look = {
            let event = event.clone();
            move |core: &Self| {
                let is_back = core.look(|view| {
                    let is_served = view.served_kind(&event.id)?.is_some();
                    Ok(is_served || view.is_kept(&event.id)?)
                })?;
                let has_vanished = core.has_vanished(&event.pubkey, event.created_at)?;
                Ok::<_, ViewError>((is_back, has_vanished))
            }
        };
        let (is_back, has_vanished) = self.blocking("grasp.look", look).await??;
        if is_back {
            return Ok(TakenBack::Duplicate);
        }
        if has_vanished {
            return Ok(TakenBack::Vanished);
        }
        let held_at = i64::try_from(removed_at.saturating_mul(1_000)).unwrap_or(i64::MAX);
        let rows = [(event, repository)];
        self.holding.put_at(&rows, reason, held_at).await?;
        Ok(TakenBack::Stored)
    }

    async fn take_archive(
        self: &Arc<Self>,
        archived: Archived,
        from: PathBuf,
    ) -> Result<TakenBack, GraspError> {
        let Archived { repo, stamp } = &archived;
        if self.is_too_old(*stamp) {
            return Ok(TakenBack::TooOld);
        }
        let _turns = self.turns(vec![repo.identifier.clone()]).await?;
        let (owner, removed_at) = (repo.owner, Timestamp::from_secs(*stamp));
        let take = move |core: &Self| {
            if core.has_vanished(&owner, removed_at)? {
                return Ok(TakenBack::Vanished);
            }
            let is_new = core.commit.adopt_archive(&archived, &from)?;
            Ok::<_, GraspError>(if is_new {
                TakenBack::Stored
            } else {
                TakenBack::Duplicate
            })
        };
        self.blocking("git.archive", take).await?
    }

    /// Says whether something removed at a time, in unix seconds, is not kept any more.
    fn is_too_old(&self, removed_at: u64) -> bool {
        let kept_until = removed_at.saturating_add(self.lifecycle.holding.as_secs());
        kept_until <= timestamp().as_secs()
    }

    /// Blocks.
    fn has_vanished(&self, author: &PublicKey, at: Timestamp) -> Result<bool, ViewError> {
        let events = self.events()?;
        events.has_vanished(author, at).map_err(ViewError::new)
    }
}
