//! Kind 30617.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_git::Prepared;
use grip_nostr::{Announcement, Event, PublicKey, RepoAddr};
use grip_purgatory::{Expired, Phase};
use grip_relay::{Answer, answer_to_put};
use grip_store::Put;
use grip_tasks::fault;
use grip_types::{EventSource, Identifier};

use crate::{
    admission::{Announcements, Decision, Effect, EventStatus, Outcome, own_identifier},
    error::GraspError,
    grasp::{Core, now},
    hosted_repositories::RepositoryStatus,
    node_view::NodeView,
    sweep::Taken,
};

/// Repositories that are made at once before their turns come; the next waits.
pub(crate) const MAX_PREPARING: usize = 4;

impl Core {
    pub(super) async fn process_announcement(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        // Before and after the turn, in which the owners of the name would wait for the disk.
        let prepared = self.prepare_announced(event, source).await?;
        let mut taken = Vec::new();
        let answer = self
            .process_in_turn(event, source, prepared, &mut taken)
            .await;
        self.remove_all_taken(taken).await;
        answer
    }

    async fn process_in_turn(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
        prepared: Option<Prepared>,
        taken: &mut Vec<Taken>,
    ) -> Result<Answer, GraspError> {
        let identifiers = own_identifier(event).into_iter().collect();
        let _turns = self
            .turns_for(event.pubkey, source.network, identifiers)
            .await?;
        let decision = self.decide(event, source).await?;
        match decision.outcome {
            Outcome::Serve => self.serve_announcement(event, decision, prepared).await,
            Outcome::Hold => {
                self.hold_announcement(event, decision, source, prepared, taken)
                    .await
            }
            _ => {
                let answer = self.answer(event, &decision);
                let has_effects = !decision.effects.is_empty();
                self.carry_out(decision.effects).await?;
                if let Some(identifier) = own_identifier(event).filter(|_| has_effects) {
                    self.settle_after(&identifier, event.pubkey).await;
                }
                Ok(answer)
            }
        }
    }

    async fn prepare_announced(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Option<Prepared>, GraspError> {
        let addr = own_identifier(event).map(|it| RepoAddr::new(event.pubkey, it));
        let Some(addr) = addr.filter(|addr| self.hosted.status(addr).is_none()) else {
            return Ok(None);
        };
        let needs_it = Effect::CreateRepository(addr.clone());
        self.prepare_repository(event, source, addr, needs_it).await
    }

    /// Makes a repository that is put in its place in a turn, if the event needs it when it is decided as
    /// it would be now.
    pub(super) async fn prepare_repository(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
        addr: RepoAddr,
        needs_it: Effect,
    ) -> Result<Option<Prepared>, GraspError> {
        let decision = self.decide(event, source).await?;
        if !decision.effects.contains(&needs_it) {
            return Ok(None);
        }
        // In no line: a few at a time, so that the disk is not kept from those who have their turn.
        let _permit = self.preparing.acquire().await;
        let prepare = move |core: &Self| {
            let prepared = core.repositories.prepare(&addr);
            prepared.map_err(GraspError::repository(&addr))
        };
        self.blocking("git.create", prepare).await?
    }

    /// Serves an announcement that has nothing to wait for. Whatever refs follow from it are set
    /// before anybody sees it.
    async fn serve_announcement(
        self: &Arc<Self>,
        event: &Event,
        decision: Decision,
        prepared: Option<Prepared>,
    ) -> Result<Answer, GraspError> {
        let answer = self.answer(event, &decision);
        let announcement =
            Announcement::parse(event.clone()).expect("only an announcement is admitted as one");
        let addr = announcement.addr();
        let hosted = decision
            .effects
            .contains(&Effect::CreateRepository(addr.clone()));
        self.carry_out_announced(decision.effects, prepared).await?;
        let align = move |core: &Self| core.align_to(&announcement);
        self.blocking("git.align", align).await??;
        let puts = self.commit.events(vec![event.clone()]).await?;
        if !matches!(puts[0], Put::Stored { .. } | Put::Duplicate) {
            return Ok(answer_to_put(&puts[0], false));
        }
        if hosted {
            self.hosted.set(&addr, RepositoryStatus::Served);
        }
        self.hosted.events_changed(&addr.identifier);
        self.forget(|purgatory| purgatory.remove_announcement(&addr))
            .await;
        // Whoever it strikes loses effect at once, and whose refs were missing gets them.
        self.settle_after(&addr.identifier, addr.owner).await;
        self.announcements_accepted.send_modify(|count| *count += 1);
        self.hosted.followed.notify_one();
        Ok(answer)
    }

    /// Carries out the effects of an accepted announcement, but what is done when it counts: to bring in
    /// step what depends on its author, and nothing of others who use the name.
    async fn carry_out_announced(
        self: &Arc<Self>,
        mut effects: Vec<Effect>,
        prepared: Option<Prepared>,
    ) -> Result<(), GraspError> {
        effects.retain(|effect| !matches!(effect, Effect::Reexamine(_)));
        self.carry_out_prepared(effects, prepared).await
    }

    /// Aligns every repository whose effective state is another with `announcement`. Blocks.
    fn align_to(&self, announcement: &Announcement) -> Result<(), GraspError> {
        let policy = self.policy.load();
        let identifier = &announcement.identifier;
        let events = self.events()?;
        let view = NodeView::new(self, &events);
        let before = Announcements::load(identifier, &view, &policy)?;
        let after = before.with(announcement, EventStatus::Served, &policy);
        let of = (identifier, &announcement.event.pubkey);
        self.realign(of, (&before, &after), &view).map(drop)
    }

    fn hold_announcement<'a>(
        self: &'a Arc<Self>,
        event: &'a Event,
        decision: Decision,
        source: EventSource,
        prepared: Option<Prepared>,
        taken: &'a mut Vec<Taken>,
    ) -> BoxFuture<'a, Result<Answer, GraspError>> {
        Box::pin(async move {
            let identifier = own_identifier(event).expect("an admitted announcement has one");
            let addr = RepoAddr::new(event.pubkey, identifier.clone());
            let (copy, from) = (event.clone(), decision.provenance(source));
            let (before, journalled) = self
                .try_held(move |purgatory| {
                    let before = purgatory.find_announcement(&addr).cloned();
                    let mut changes = purgatory.add_announcement(copy, identifier, from, now())?;
                    // The very one that is hidden may come again: its time starts again (G01-20).
                    let entry = purgatory.find_announcement(&addr);
                    if entry.is_some_and(|entry| entry.phase == Phase::Hidden) {
                        changes.extend(purgatory.revive(&addr, now()).1);
                    }
                    let mut made = purgatory.make_room(&addr, now());
                    changes.append(&mut made.changes);
                    Ok(((addr, before, made), changes))
                })
                .await?;
            let (addr, before, made) = before;
            if let Err(error) = journalled {
                // The rows of before are still in the journal: only memory is put back.
                let mut purgatory = self.purgatory.lock();
                drop(purgatory.remove_announcement(&addr));
                purgatory.put_back_announcements(before.into_iter().chain(made.before));
                return Err(error.into());
            }
            fault::point("hold.journalled");
            let answer = self.answer(event, &decision);
            let mut forgotten = Vec::new();
            for expired in made.expired {
                if let Expired::Announcement { addr, .. } = &expired {
                    forgotten.push(addr.clone());
                }
                // The newcomer is held all the same, and a start removes what is left.
                if let Err(error) = self.end_in_turn(expired, taken).await {
                    error.log("failed to remove the repository of a hidden announcement");
                }
            }
            self.carry_out_announced(decision.effects, prepared).await?;
            self.settle_forgotten(&addr.identifier, forgotten).await?;
            self.settle_after(&addr.identifier, addr.owner).await;
            self.announcements_accepted.send_modify(|count| *count += 1);
            self.hosted.followed.notify_one();
            Ok(answer)
        })
    }

    /// Brings in step what depended on announcements that made room for another. Most of them were only
    /// about their own empty repositories, and cost nothing more.
    async fn settle_forgotten(
        self: &Arc<Self>,
        identifier: &Identifier,
        forgotten: Vec<RepoAddr>,
    ) -> Result<(), GraspError> {
        let (here, elsewhere): (Vec<_>, Vec<_>) = forgotten
            .into_iter()
            .partition(|addr| addr.identifier == *identifier);
        for addr in elsewhere {
            // In another turn: by the next sweep.
            self.unsettled.add(&addr.identifier);
        }
        if here.is_empty() {
            return Ok(());
        }
        let matter = {
            let identifier = identifier.clone();
            move |core: &Self| {
                let policy = core.policy.load();
                core.look(|view| {
                    let left = Announcements::load(&identifier, view, &policy)?;
                    let states = view.held_states(&identifier)?;
                    let matters = |owner: &PublicKey| {
                        left.depending_on(owner).len() > 1
                            || states.iter().any(|state| state.author == *owner)
                    };
                    let owners = here.into_iter().map(|addr| addr.owner);
                    Ok(owners.filter(matters).collect::<Vec<_>>())
                })
            }
        };
        for owner in self.blocking("grasp.look", matter).await?? {
            self.settle_after(identifier, owner).await;
        }
        Ok(())
    }
}
