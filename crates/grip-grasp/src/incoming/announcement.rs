//! Kind 30617.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_nostr::{Announcement, Event, RepoAddr};
use grip_purgatory::Phase;
use grip_relay::{Answer, answer_to_put};
use grip_store::Put;
use grip_tasks::fault;
use grip_types::EventSource;

use super::identifiers::own_identifier;
use crate::{
    admission::{Announcements, Decision, Effect, EventStatus, Outcome},
    error::GraspError,
    grasp::{Core, now},
    hosted_repositories::RepositoryStatus,
    node_view::NodeView,
};

impl Core {
    pub(super) async fn process_announcement(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        let identifiers = own_identifier(event).into_iter().collect();
        let _turns = self.turns(identifiers).await?;
        let decision = self.decide(event, source).await?;
        match decision.outcome {
            Outcome::Serve => self.serve_announcement(event, decision).await,
            Outcome::Hold => self.hold_announcement(event, decision, source).await,
            _ => {
                let answer = self.answer(event, &decision);
                let has_effects = !decision.effects.is_empty();
                self.carry_out(decision.effects).await?;
                if let Some(identifier) = own_identifier(event).filter(|_| has_effects) {
                    self.settle(&identifier).await;
                }
                Ok(answer)
            }
        }
    }

    /// Serves an announcement that has nothing to wait for. Whatever refs follow from it are set
    /// before anybody sees it.
    async fn serve_announcement(
        self: &Arc<Self>,
        event: &Event,
        decision: Decision,
    ) -> Result<Answer, GraspError> {
        let answer = self.answer(event, &decision);
        let announcement =
            Announcement::parse(event.clone()).expect("only an announcement is admitted as one");
        let addr = announcement.addr();
        let hosted = decision
            .effects
            .contains(&Effect::CreateRepository(addr.clone()));
        let is_last = |effect: &Effect| matches!(effect, Effect::Reexamine(_));
        let first = decision
            .effects
            .into_iter()
            .filter(|it| !is_last(it))
            .collect();
        self.carry_out(first).await?;
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
        self.settle(&addr.identifier).await;
        self.announcements_accepted.send_modify(|count| *count += 1);
        self.hosted.followed.notify_one();
        Ok(answer)
    }

    /// Aligns every repository whose effective state is another with `announcement`. Blocks.
    fn align_to(&self, announcement: &Announcement) -> Result<(), GraspError> {
        let policy = self.policy.load();
        let identifier = &announcement.identifier;
        let events = self.events()?;
        let view = NodeView::new(self, &events);
        let before = Announcements::load(identifier, &view, &policy)?;
        let after = before.with(announcement, EventStatus::Served, &policy);
        self.realign(identifier, &before, &after, &view).map(drop)
    }

    fn hold_announcement<'a>(
        self: &'a Arc<Self>,
        event: &'a Event,
        decision: Decision,
        source: EventSource,
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
            for expired in made.expired {
                // The newcomer is held all the same, and a start removes what is left.
                if let Err(error) = self.end_in_turn(expired).await {
                    error.log("failed to remove the repository of a hidden announcement");
                }
            }
            self.carry_out(decision.effects).await?;
            self.settle(&addr.identifier).await;
            self.announcements_accepted.send_modify(|count| *count += 1);
            self.hosted.followed.notify_one();
            Ok(answer)
        })
    }
}
