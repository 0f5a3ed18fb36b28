//! Effects of admission's decisions besides serving, holding and refusing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_git::Prepared;
use grip_nostr::{Event, EventId, RepoAddr};
use grip_purgatory::Phase;
use grip_types::Identifier;

use crate::{
    admission::{Effect, EventStatus, own_identifier},
    error::GraspError,
    grasp::{Core, now},
    hosted_repositories::RepositoryStatus,
    release::DataSource,
};

impl Core {
    /// Carries out `effects` in their order; the caller has the turns of all they name.
    pub(crate) fn carry_out<'a>(
        self: &'a Arc<Self>,
        effects: Vec<Effect>,
    ) -> BoxFuture<'a, Result<(), GraspError>> {
        self.carry_out_prepared(effects, None)
    }

    /// The same, with a repository that was made before the turns were taken, if one is needed.
    pub(crate) fn carry_out_prepared<'a>(
        self: &'a Arc<Self>,
        effects: Vec<Effect>,
        mut prepared: Option<Prepared>,
    ) -> BoxFuture<'a, Result<(), GraspError>> {
        Box::pin(async move {
            for effect in effects {
                self.carry_out_one(effect, &mut prepared).await?;
            }
            Ok(())
        })
    }

    async fn carry_out_one(
        self: &Arc<Self>,
        effect: Effect,
        prepared: &mut Option<Prepared>,
    ) -> Result<(), GraspError> {
        match effect {
            Effect::CreateRepository(addr) => {
                let prepared = prepared.take_if(|it| *it.repo() == addr);
                self.open_repository(addr, prepared).await
            }
            Effect::KeepAlive(addr) => {
                let prepared = prepared.take_if(|it| *it.repo() == addr);
                if self.keep_alive(&addr, prepared).await? {
                    // The archive has refs of a state that may be gone.
                    self.settle_after(&addr.identifier, addr.owner).await;
                }
                Ok(())
            }
            Effect::EvictAnnouncement(addr) => self.evict(addr, None).await,
            Effect::DropStates { identifier, ids } => {
                self.drop_states(&identifier, &ids).await;
                Ok(())
            }
            Effect::DropPullRequest(id) => {
                self.forget(|purgatory| purgatory.remove_pr(&id)).await;
                Ok(())
            }
            Effect::SetPullRequestRef { .. } | Effect::ClearPullRequestRef { .. } => {
                self.move_tips(vec![effect]).await.map(drop)
            }
            Effect::Leave { by, of } => {
                let addr = own_identifier(&by).map(|it| RepoAddr::new(by.pubkey, it));
                let addr = addr.expect("an announcement has one");
                match of {
                    Some(EventStatus::Served) => self.withdraw(&addr, &by).await,
                    Some(_) => self.evict(addr, Some(&by)).await,
                    None => self.remember_departure(&addr, &by).await,
                }
            }
            Effect::EndGrace(addr) => Ok(self.end_withdrawal(&addr).await?),
            Effect::UseRequest(id) => {
                self.used_requests.note(id);
                Ok(())
            }
            // Noted by the writer, before it stores the profile.
            Effect::NoteNewcomer => Ok(()),
            Effect::Reexamine(identifier) => {
                let released = self.release(&identifier, DataSource::Announcement).await;
                released.log(&identifier);
                self.settle_released(&identifier, &released).await;
                Ok(())
            }
        }
    }

    /// Has a repository for an announcement that was just accepted.
    async fn open_repository(
        self: &Arc<Self>,
        addr: RepoAddr,
        prepared: Option<Prepared>,
    ) -> Result<(), GraspError> {
        self.end_withdrawal(&addr).await?;
        let status = self.hosted.status(&addr);
        let status = status.unwrap_or(RepositoryStatus::Held);
        self.have_repository(addr, status, prepared).await
    }

    /// Has a repository, without the refs of what left service while it was in the archive.
    pub(crate) async fn have_repository(
        self: &Arc<Self>,
        addr: RepoAddr,
        status: RepositoryStatus,
        prepared: Option<Prepared>,
    ) -> Result<(), GraspError> {
        let ensure = move |core: &Self| {
            if core.ensure_repository(&addr, status, prepared)? {
                core.clear_orphan_refs(&addr)?;
            }
            Ok(())
        };
        self.blocking("git.create", ensure).await?
    }

    /// Restarts the time of a held announcement; one that was hidden gets its repository back, which
    /// is what is told.
    pub(crate) async fn keep_alive(
        self: &Arc<Self>,
        addr: &RepoAddr,
        prepared: Option<Prepared>,
    ) -> Result<bool, GraspError> {
        let before = self.held(|purgatory| purgatory.revive(addr, now())).await?;
        let was_hidden = before == Some(Phase::Hidden);
        if was_hidden {
            self.have_repository(addr.clone(), RepositoryStatus::Held, prepared)
                .await?;
        }
        Ok(was_hidden)
    }

    /// Forgets an announcement that waits, and remembers by which its owner left, in one write.
    async fn evict(self: &Arc<Self>, addr: RepoAddr, by: Option<&Event>) -> Result<(), GraspError> {
        let left = by.and_then(|by| self.note_departure(&addr, by));
        // Waited for: the start could not tell that the owner has left.
        self.held(|purgatory| {
            let mut changes = purgatory.remove_announcement(&addr);
            changes.extend(left.iter().flat_map(|left| left.changes.iter().cloned()));
            ((), changes)
        })
        .await?;
        self.departures.remember(left);
        self.blocking("git.remove", move |core| core.remove_or_archive(&addr))
            .await?
    }

    pub(crate) async fn drop_states(&self, identifier: &Identifier, ids: &[EventId]) {
        self.forget(|purgatory| {
            let removals = ids
                .iter()
                .map(|id| purgatory.remove_state_event(identifier, id));
            removals.collect::<Vec<_>>().concat()
        })
        .await;
    }
}
