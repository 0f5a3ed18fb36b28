//! Kinds 1618 and 1619.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_nostr::{Event, PullRequest};
use grip_relay::Answer;
use grip_types::{EventSource, Identifier};

use crate::{
    admission::{Decision, Outcome, concerned},
    error::GraspError,
    grasp::{Core, now},
    release::Released,
};

impl Core {
    pub(super) fn process_pull_request<'a>(
        self: &'a Arc<Self>,
        event: &'a Event,
        source: EventSource,
    ) -> BoxFuture<'a, Result<Answer, GraspError>> {
        Box::pin(async move {
            let identifiers = self.concerned(event).await?;
            // Before the turns are taken: to walk what is staged takes a while.
            let mut prepared = Vec::new();
            if self
                .purgatory
                .lock()
                .find_pr_placeholder(&event.id)
                .is_some()
            {
                let first = self.decide(event, source).await?;
                if first.outcome == Outcome::Serve {
                    prepared = self.prepare_tips_of(&first.effects).await?;
                }
            }
            let turns = self
                .turns_for(event.pubkey, source.network, identifiers.clone())
                .await?;
            let mut decision = self.decide(event, source).await?;
            let elsewhere = decision.take_cleared_beyond(&identifiers);
            let answer = match decision.outcome {
                Outcome::Serve => {
                    let answer = self.answer(event, &decision);
                    let mut released = Released::default();
                    let (event, effects) = (event.clone(), decision.effects);
                    self.serve_pull_request(event, effects, prepared, &mut released)
                        .await?;
                    answer
                }
                Outcome::Hold => {
                    self.hold_pull_request(event, identifiers, decision, source)
                        .await?
                }
                _ => return Ok(self.answer(event, &decision)),
            };
            drop(turns);
            for (identifier, requests) in elsewhere {
                let _turns = self
                    .turns_for(event.pubkey, source.network, vec![identifier.clone()])
                    .await?;
                self.clear_tips(&identifier, requests).await?;
            }
            Ok(answer)
        })
    }

    /// The identifiers whose turns a pull request or a deletion needs.
    pub(super) async fn concerned(
        self: &Arc<Self>,
        event: &Event,
    ) -> Result<Vec<Identifier>, GraspError> {
        let event = event.clone();
        let look = move |core: &Self| {
            let policy = core.policy.load();
            core.look(|view| concerned(&event, view, &policy))
        };
        let names = self.blocking("grasp.judge", look).await??;
        Ok(names.into_iter().collect())
    }

    async fn hold_pull_request(
        self: &Arc<Self>,
        event: &Event,
        identifiers: Vec<Identifier>,
        decision: Decision,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        let request = PullRequest::parse(event.clone()).expect("admitted as a pull request");
        let (id, tip) = (event.id, request.tip);
        let from = decision.provenance(source);
        self.hold(id, identifiers, |purgatory, identifiers| {
            purgatory.add_pr(request.event, tip, identifiers, from, now())
        })
        .await?;
        let answer = self.answer(event, &decision);
        // Refs at another commit go, and with them the note that they wait (G01-48).
        self.carry_out(decision.effects).await?;
        self.forget(|purgatory| purgatory.remove_pr_placeholder(&id))
            .await;
        Ok(answer)
    }
}
