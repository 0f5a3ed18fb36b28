//! Releasing pull requests and their updates.

use std::{collections::BTreeSet, sync::Arc};

use grip_git::StagedTip;
use grip_nostr::{Event, EventId, PullRequest, RepoAddr};
use grip_tasks::fault;
use grip_types::{Identifier, Oid, RefName};

use super::{Released, again};
use crate::{
    admission::{Cause, Decision, Effect, EventStatus, Found, Outcome, View, admit},
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
            // The last state of its repository was deleted since. It was taken, and waits with the
            // repository until its own time is over.
            Outcome::Refuse(ref reason) if reason.cause == Cause::NoGitData => Ok(()),
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
        let is_served = decision.outcome == Outcome::Duplicate(EventStatus::Served);
        if is_served && self.has_lost_tip(&event, &view)? {
            // It is served already, and what it rests on is looked for again.
            return Ok(None);
        }
        Ok(Some((event, decision)))
    }

    /// Says whether the tip of a waiting pull request is missing where it is looked for.
    fn has_lost_tip(&self, event: &Event, view: &dyn View) -> Result<bool, GraspError> {
        let Ok(request) = PullRequest::parse(event.clone()) else {
            return Ok(false);
        };
        let identifiers = {
            let purgatory = self.purgatory.lock();
            let waiting = purgatory.find_waiting(&event.id);
            waiting.map_or_else(Vec::new, |waiting| waiting.identifiers().to_vec())
        };
        for identifier in &identifiers {
            if view.objects(identifier, &[request.tip])?[0] == Found::Missing {
                return Ok(true);
            }
        }
        Ok(false)
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
        let puts = self.commit.events(vec![event.clone()]).await?;
        fault::point("release.event_saved");
        if self.is_served_now(&puts[0], &event, released) {
            released.prs_released += 1;
            self.hosted.followed.notify_one();
        }
        self.forget(|purgatory| purgatory.remove_pr(&id)).await;
        Ok(())
    }

    /// What is staged of the tips that `effects` set, ready to be promoted. Needs no turn.
    pub(crate) async fn prepare_tips_of(
        self: &Arc<Self>,
        effects: &[Effect],
    ) -> Result<Vec<StagedTip>, GraspError> {
        let mut prepared = Vec::new();
        for (addr, event, tip) in tips_of(effects) {
            prepared.extend(self.prepare_tip(addr, event, tip).await?);
        }
        for mirrored in mirrored_by(effects) {
            prepared.extend(self.prepare_mirrored(&mirrored).await?);
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
            let is_it = |ready: &StagedTip| ready.is_at(addr, &tip);
            let ready = match prepared.iter().position(is_it) {
                Some(place) => Some(prepared.swap_remove(place)),
                None => self.prepare_tip(addr, event, tip).await?,
            };
            if let Some(ready) = ready {
                self.promote_prepared(addr, ready).await?;
            }
        }
        for mirrored in mirrored_by(effects) {
            let Mirrored {
                source,
                identifier,
                tip,
                ..
            } = &mirrored;
            let is_it = |ready: &StagedTip| ready.is_at(source, tip) && ready.is_for(identifier);
            let ready = match prepared.iter().position(is_it) {
                Some(place) => Some(prepared.swap_remove(place)),
                None => self.prepare_mirrored(&mirrored).await?,
            };
            if let Some(ready) = ready {
                self.promote_prepared(source, ready).await?;
            }
        }
        Ok(())
    }

    /// What is staged of the tip of a waiting pull request, ready to be promoted. Needs no turn.
    pub(crate) async fn prepare_waiting(
        self: &Arc<Self>,
        id: EventId,
    ) -> Result<Vec<StagedTip>, GraspError> {
        let judge = move |core: &Self| core.judge_waiting_pull_request(&id);
        match self.blocking("grasp.judge", judge).await?? {
            Some((_, decision)) if decision.outcome == Outcome::Serve => {
                self.prepare_tips_of(&decision.effects).await
            }
            _ => Ok(Vec::new()),
        }
    }

    /// What a contributor repository has of a tip, ready to be copied into the store of an identifier
    /// that lacks it.
    pub(crate) async fn prepare_mirrored(
        self: &Arc<Self>,
        mirrored: &Mirrored,
    ) -> Result<Option<StagedTip>, GraspError> {
        let look = {
            let (identifier, tip) = (mirrored.identifier.clone(), mirrored.tip);
            move |core: &Self| core.repositories.kinds(&identifier, &[tip])
        };
        let stored = self.blocking("grasp.look", look).await?;
        let stored = stored.map_err(|error| GraspError::Stores(Box::new(error)))?;
        if stored.iter().any(Option::is_some) {
            return Ok(None);
        }
        let Mirrored {
            source,
            identifier,
            event,
            tip,
        } = mirrored;
        let name = RefName::for_nostr_event(event.as_bytes());
        let repositories = &self.repositories;
        let prepared = repositories.prepare_staged_for(identifier, source, &name, tip);
        prepared.await.map_err(GraspError::staged(source))
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
            .filter(|addr| addr.is_contributor() || self.hosted.status(addr).is_some())
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

/// A tip that is copied from a contributor repository into a store.
pub(crate) struct Mirrored {
    pub(crate) source: RepoAddr,
    pub(crate) identifier: Identifier,
    pub(crate) event: EventId,
    pub(crate) tip: Oid,
}

/// The tips that `effects` set in repositories of an identifier, and that a contributor has.
fn mirrored_by(effects: &[Effect]) -> Vec<Mirrored> {
    let mut all = Vec::new();
    for effect in effects {
        let Effect::SetPullRequestRef {
            repositories,
            event,
            tip,
            source: Some(source),
        } = effect
        else {
            continue;
        };
        let identifiers: BTreeSet<&Identifier> =
            repositories.iter().map(|addr| &addr.identifier).collect();
        all.extend(identifiers.into_iter().map(|identifier| Mirrored {
            source: source.clone(),
            identifier: identifier.clone(),
            event: *event,
            tip: *tip,
        }));
    }
    all
}

/// The tips that `effects` set, each in a repository.
fn tips_of<'a>(effects: &'a [Effect]) -> impl Iterator<Item = (&'a RepoAddr, &'a EventId, Oid)> {
    let of_effect = |effect: &'a Effect| match effect {
        Effect::SetPullRequestRef {
            repositories,
            event,
            tip,
            ..
        } => Some(repositories.iter().map(move |addr| (addr, event, *tip))),
        _ => None,
    };
    effects.iter().filter_map(of_effect).flatten()
}
