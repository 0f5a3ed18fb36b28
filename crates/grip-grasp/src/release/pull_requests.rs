//! Releasing pull requests and their updates.

use std::sync::Arc;

use grip_git::StagedTip;
use grip_nostr::{Event, EventId, RepoAddr};
use grip_tasks::fault;
use grip_types::Oid;

use super::{Released, again};
use crate::{
    admission::{Decision, Effect, Outcome, admit},
    error::GraspError,
    grasp::Core,
    node_view::NodeView,
    repositories::Moved,
};

impl Core {
    pub(super) async fn release_pull_request(
        self: &Arc<Self>,
        id: EventId,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        let judge = move |core: &Self| core.judge_waiting_pull_request(&id);
        let Some((event, decision)) = self.blocking("grasp.judge", judge).await?? else {
            return Ok(());
        };
        match decision.outcome {
            Outcome::Serve => {
                self.serve_pull_request(event, decision.effects, Vec::new(), released)
                    .await
            }
            Outcome::Refuse(_) | Outcome::Duplicate(_) | Outcome::Retired => {
                tracing::info!(%id, outcome = ?decision.outcome, "waiting pull request dropped");
                self.forget(|purgatory| match purgatory.find_pr(&id) {
                    Some(_) => purgatory.remove_pr(&id),
                    // Refs pushed under its name since it expired go on waiting.
                    None => purgatory.remove_wanted(&id),
                })
                .await;
                Ok(())
            }
            Outcome::Hold | Outcome::Broadcast => Ok(()),
        }
    }

    fn judge_waiting_pull_request(
        &self,
        id: &EventId,
    ) -> Result<Option<(Event, Decision)>, GraspError> {
        let Some(event) = self.waiting_event(id) else {
            return Ok(None);
        };
        let events = self.events()?;
        let view = NodeView::leaving_out(self, &events, *id);
        let decision = admit(&event, &view, &self.policy.load(), again())?;
        Ok(Some((event, decision)))
    }

    /// Promotes the tip of a pull request if it is staged, sets its refs, saves it, and forgets what
    /// was held. What is not among `prepared` is walked here, in the turn.
    pub(crate) async fn serve_pull_request(
        self: &Arc<Self>,
        event: Event,
        effects: Vec<Effect>,
        prepared: Vec<StagedTip>,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        self.promote_tips(&effects, prepared).await?;
        fault::point("release.objects_durable");
        for moved in self.move_tips(effects).await? {
            released.count(moved);
        }
        fault::point("release.refs_aligned");
        let id = event.id;
        let puts = self.commit.events(vec![event]).await?;
        fault::point("release.event_saved");
        if self.is_served_now(&puts[0], id, released) {
            released.prs_released += 1;
            self.hosted.followed.notify_one();
        }
        self.forget(|purgatory| purgatory.remove_pr(&id)).await;
        Ok(())
    }

    /// What is staged of the tips that `effects` set, ready to be promoted. Needs no turn.
    pub(crate) async fn prepare_tips_of(
        &self,
        effects: &[Effect],
    ) -> Result<Vec<StagedTip>, GraspError> {
        let mut prepared = Vec::new();
        for (addr, event, tip) in tips_of(effects) {
            prepared.extend(self.prepare_tip(addr, event, tip).await?);
        }
        Ok(prepared)
    }

    /// Makes the tips that are to be set part of the store, wherever they are staged.
    async fn promote_tips(
        self: &Arc<Self>,
        effects: &[Effect],
        mut prepared: Vec<StagedTip>,
    ) -> Result<(), GraspError> {
        for (addr, event, tip) in tips_of(effects) {
            let ready = prepared.iter().position(|ready| ready.is_at(addr, &tip));
            let ready = match ready {
                Some(place) => Some(prepared.swap_remove(place)),
                None => self.prepare_tip(addr, event, tip).await?,
            };
            if let Some(ready) = ready {
                self.promote_prepared(addr, ready).await?;
            }
        }
        Ok(())
    }

    /// Carries out those effects that set or clear `refs/nostr/*`.
    pub(crate) async fn move_tips(
        self: &Arc<Self>,
        effects: Vec<Effect>,
    ) -> Result<Vec<Moved>, GraspError> {
        let work = move |core: &Self| {
            let mut moved = Vec::new();
            for effect in &effects {
                core.move_tips_of(effect, &mut moved)?;
            }
            Ok(moved)
        };
        self.blocking("git.refs", work).await?
    }

    fn move_tips_of(&self, effect: &Effect, moved: &mut Vec<Moved>) -> Result<(), GraspError> {
        let (repositories, event) = match effect {
            Effect::SetPullRequestRef {
                repositories,
                event,
                ..
            }
            | Effect::ClearPullRequestRef {
                repositories,
                event,
                ..
            } => (repositories, event),
            _ => return Ok(()),
        };
        for addr in repositories
            .iter()
            .filter(|addr| self.hosted.status(addr).is_some())
        {
            moved.push(match effect {
                Effect::SetPullRequestRef { tip, .. } => self.set_tip(addr, event, *tip)?,
                Effect::ClearPullRequestRef { unless, .. } => {
                    self.clear_tip(addr, event, *unless)?
                }
                _ => continue,
            });
        }
        Ok(())
    }
}

/// The tips that `effects` set, each in a repository.
fn tips_of<'a>(effects: &'a [Effect]) -> impl Iterator<Item = (&'a RepoAddr, &'a EventId, Oid)> {
    let of_effect = |effect: &'a Effect| match effect {
        Effect::SetPullRequestRef {
            repositories,
            event,
            tip,
        } => Some(repositories.iter().map(move |addr| (addr, event, *tip))),
        _ => None,
    };
    effects.iter().filter_map(of_effect).flatten()
}
