//! Effects of admission's decisions besides serving, holding and refusing.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_nostr::{EventId, RepoAddr};
use grip_purgatory::Phase;
use grip_types::Identifier;

use crate::{
    admission::Effect,
    error::GraspError,
    grasp::{Core, now},
    hosted_repositories::RepositoryStatus,
    incoming::own_identifier,
    release::DataSource,
};

impl Core {
    /// Carries out `effects` in their order; the caller has the turns of all they name.
    pub(crate) fn carry_out<'a>(
        self: &'a Arc<Self>,
        effects: Vec<Effect>,
    ) -> BoxFuture<'a, Result<(), GraspError>> {
        Box::pin(async move {
            for effect in effects {
                self.carry_out_one(effect).await?;
            }
            Ok(())
        })
    }

    async fn carry_out_one(self: &Arc<Self>, effect: Effect) -> Result<(), GraspError> {
        match effect {
            Effect::CreateRepository(addr) => self.open_repository(addr).await,
            Effect::KeepAlive(addr) => {
                if self.keep_alive(&addr).await? {
                    // The archive has refs of a state that may be gone.
                    self.settle(&addr.identifier).await;
                }
                Ok(())
            }
            Effect::EvictAnnouncement(addr) => self.evict(addr).await,
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
            Effect::RememberDeparture(event) => {
                let addr = own_identifier(&event).map(|it| RepoAddr::new(event.pubkey, it));
                let addr = addr.expect("an announcement has one");
                self.remember_departure(&addr, &event).await
            }
            Effect::Withdraw(addr) => self.withdraw(&addr).await,
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
                Ok(())
            }
        }
    }

    /// Has a repository for an announcement that was just accepted.
    async fn open_repository(self: &Arc<Self>, addr: RepoAddr) -> Result<(), GraspError> {
        self.end_withdrawal(&addr).await?;
        self.forget_departure(&addr).await?;
        let status = self.hosted.status(&addr);
        self.have_repository(addr, status.unwrap_or(RepositoryStatus::Held))
            .await
    }

    /// Has a repository; what the archive brings back may hold refs that nothing notes any more.
    pub(crate) async fn have_repository(
        self: &Arc<Self>,
        addr: RepoAddr,
        status: RepositoryStatus,
    ) -> Result<(), GraspError> {
        let ensure = {
            let addr = addr.clone();
            move |core: &Self| core.ensure_repository(&addr, status)
        };
        if self.blocking("git.create", ensure).await?? {
            self.hold_orphan_refs(vec![addr]).await?;
        }
        Ok(())
    }

    /// Restarts the time of a held announcement; one that was hidden gets its repository back, which
    /// is what is told.
    pub(crate) async fn keep_alive(self: &Arc<Self>, addr: &RepoAddr) -> Result<bool, GraspError> {
        let before = self.held(|purgatory| purgatory.revive(addr, now())).await?;
        let was_hidden = before == Some(Phase::Hidden);
        if was_hidden {
            self.have_repository(addr.clone(), RepositoryStatus::Held)
                .await?;
        }
        Ok(was_hidden)
    }

    async fn evict(self: &Arc<Self>, addr: RepoAddr) -> Result<(), GraspError> {
        // Waited for: the start could not tell that the owner has left.
        self.held(|purgatory| ((), purgatory.remove_announcement(&addr)))
            .await?;
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
