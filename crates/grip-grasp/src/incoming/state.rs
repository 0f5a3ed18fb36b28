//! Kind 30618.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_git::Prepared;
use grip_nostr::{Event, RepoAddr};
use grip_purgatory::{Phase, Provenance, Purgatory};
use grip_relay::Answer;
use grip_types::{EventSource, Identifier};
use tokio::time::{Instant, timeout_at};

use super::arrival;
use crate::{
    admission::{Cause, Decision, Effect, Outcome, own_identifier},
    agreement::Scope,
    error::GraspError,
    grasp::{Core, now},
    release::{DataSource, Plan, Released},
    sweep::concerns,
};

/// How long a state waits for its announcement: clients send both at once.
const MOMENT: Duration = Duration::from_secs(1);
/// How many states may wait so; more are refused at once.
pub(crate) const MAX_TOO_SOON: usize = 16;

impl Core {
    pub(super) async fn process_state(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        let deadline = Instant::now() + MOMENT;
        let mut permit = None;
        loop {
            // Registered before looking, so that no announcement is missed.
            let mut accepted = self.announcements_accepted.subscribe();
            let decision = match self.try_process_state(event, source).await? {
                Ok(answer) => return Ok(answer),
                Err(decision) => decision,
            };
            permit = permit.or_else(|| self.too_soon.try_acquire().ok());
            if permit.is_none() || timeout_at(deadline, accepted.changed()).await.is_err() {
                return Ok(self.answer(event, &decision));
            }
        }
    }

    /// The inner error is the refusal of a state whose announcement is not here, perhaps yet.
    fn try_process_state<'a>(
        self: &'a Arc<Self>,
        event: &'a Event,
        source: EventSource,
    ) -> BoxFuture<'a, Result<Result<Answer, Decision>, GraspError>> {
        Box::pin(async move {
            let identifiers = own_identifier(event).into_iter().collect();
            let prepared = self.prepare_hidden(event, source).await?;
            let _turns = self
                .turns_for(event.pubkey, source.network, identifiers)
                .await?;
            let judge = {
                let event = event.clone();
                move |core: &Self| core.judge_new_state(&event, arrival(source))
            };
            let (decision, plan) = self.blocking("grasp.judge", judge).await??;
            match (&decision.outcome, plan) {
                (Outcome::Refuse(reason), _) if reason.cause == Cause::Unannounced => {
                    Ok(Err(decision))
                }
                (Outcome::Serve, Some(plan)) => {
                    self.serve_new_state(event, decision, plan).await.map(Ok)
                }
                (Outcome::Serve | Outcome::Hold, _) => {
                    let holding = self.hold_state(event, decision, source, prepared);
                    holding.await.map(Ok)
                }
                _ => {
                    let answer = self.answer(event, &decision);
                    self.carry_out(decision.effects).await?;
                    Ok(Ok(answer))
                }
            }
        })
    }

    /// Makes the repository of a hidden announcement that a state of its owner brings back (G01-20), before
    /// its turn is taken.
    async fn prepare_hidden(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Option<Prepared>, GraspError> {
        let addr = own_identifier(event).map(|it| RepoAddr::new(event.pubkey, it));
        let is_hidden = |addr: &RepoAddr| {
            let purgatory = self.purgatory.lock();
            let entry = purgatory.find_announcement(addr);
            entry.is_some_and(|entry| entry.phase == Phase::Hidden)
        };
        match addr.filter(is_hidden) {
            Some(addr) => {
                let needs_it = Effect::KeepAlive(addr.clone());
                self.prepare_repository(event, source, addr, needs_it).await
            }
            None => Ok(None),
        }
    }

    async fn serve_new_state(
        self: &Arc<Self>,
        event: &Event,
        decision: Decision,
        plan: Plan,
    ) -> Result<Answer, GraspError> {
        let identifier = identifier(event);
        let answer = self.answer(event, &decision);
        let mut released = Released::default();
        self.serve_state(&identifier, plan, &mut released).await?;
        released.log(&identifier);
        self.settle_released(&identifier, &released).await;
        let (last, first): (Vec<_>, Vec<_>) = decision
            .effects
            .into_iter()
            .partition(|effect| matches!(effect, Effect::Reexamine(_)));
        self.carry_out(first).await?;
        if !last.is_empty() {
            // No new data came: it concerns what depends on its author, and no stranger.
            let scope = Scope::DependingOn(event.pubkey);
            let releasing = self.release_in(&identifier, DataSource::Announcement, scope);
            let released = releasing.await;
            released.log(&identifier);
            self.settle_released(&identifier, &released).await;
        }
        Ok(answer)
    }

    async fn hold_state(
        self: &Arc<Self>,
        event: &Event,
        decision: Decision,
        source: EventSource,
        prepared: Option<Prepared>,
    ) -> Result<Answer, GraspError> {
        let (name, held_text) = (identifier(event), decision.held_text);
        let from = decision.provenance(source);
        let hold = || {
            let (copy, name, from) = (event.clone(), name.clone(), from.clone());
            self.hold(event.id, vec![name.clone()], |purgatory, _| {
                purgatory.add_state(copy, name, from, now())
            })
        };
        match hold().await {
            Err(GraspError::Full(full)) => {
                if !self.give_way_to(event, &name, from.clone()).await? {
                    return Err(full.into());
                }
                hold().await?;
                // Refs may rest on what has given way.
                self.settle_after(&name, event.pubkey).await;
            }
            held => held?,
        }
        drop(self.answer(event, &decision));
        self.carry_out_prepared(decision.effects, prepared).await?;
        if self.policy.load().archive.read_only {
            // Nobody can push it here (G05-7).
            self.held(|purgatory| ((), purgatory.sync_now(&identifier(event), now())))
                .await?;
        }
        Ok(Answer::accepted(held_text))
    }

    /// Ends the time of what the author of a state holds beside it, if that makes room for it.
    async fn give_way_to(
        self: &Arc<Self>,
        event: &Event,
        name: &Identifier,
        from: Provenance,
    ) -> Result<bool, GraspError> {
        let give_way =
            |purgatory: &mut Purgatory| purgatory.give_way_to_state(event, name, from, now());
        let expired = self.held(give_way).await?;
        // Refs of other names may rest on pull requests among them: their turns come with the next sweep.
        for identifier in expired.iter().flat_map(concerns) {
            self.unsettled.add(identifier);
        }
        let count = expired.len();
        if count > 0 {
            tracing::info!(identifier = %name, id = %event.id, count, "older events of its author gave way to a state");
        }
        Ok(count > 0)
    }
}

fn identifier(event: &Event) -> Identifier {
    own_identifier(event).expect("an admitted state has one")
}
