//! Deferred events of the relay: announcements, states, pull requests and requests to delete and to
//! vanish, each processed
//! in the turns of the identifiers it concerns.

mod announcement;
mod deletion;
mod pull_request;
mod state;
mod vanish;

pub(crate) use announcement::MAX_PREPARING;
pub(crate) use state::MAX_TOO_SOON;

use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use grip_nostr::{Event, PullRequest, RepoAddr, Timestamp, kinds};
use grip_relay::{Answer, Share, Verdict, WritePolicy};
use grip_store::{EventView, StoreError};
use grip_types::{EventSource, Origin};
use tracing::Instrument as _;

use crate::{
    Grasp,
    admission::{Arrival, Decision, Effect, Outcome, Step, admit, by_maintainer, own_identifier},
    error::GraspError,
    grasp::{Core, timestamp},
    node_view::NodeView,
    profiles,
    summary::npub,
};

/// What a pull request takes of its network's share at least: its ref is in every repository it is for.
const PULL_REQUEST_BYTES: usize = 2 << 10;

impl WritePolicy for Grasp {
    fn judge(
        &self,
        event: &Event,
        view: &dyn EventView,
        now: Timestamp,
    ) -> Result<Verdict, StoreError> {
        let core = &self.core;
        let arrival = Arrival {
            now,
            origin: Origin::Submitted,
        };
        let decision = admit(
            event,
            &NodeView::new(core, view),
            &core.policy.load(),
            arrival,
        );
        let decision = match decision {
            Ok(decision) => decision,
            Err(error) => return Ok(Verdict::Refuse(GraspError::from(error).answer())),
        };
        Ok(match decision.outcome {
            Outcome::Serve => match core.has_room(event, &NodeView::new(core, view)) {
                Ok(()) => {
                    let is_new = decision.effects.contains(&Effect::NoteNewcomer);
                    if is_new && !core.newcomers.add(event.pubkey, event.kind, now.into()) {
                        let text = "rate-limited: too many profiles of newcomers wait here; try \
                                    again in a minute";
                        return Ok(Verdict::Refuse(Answer::refused(text)));
                    }
                    if [kinds::PATCH, kinds::ISSUE].contains(&event.kind) {
                        core.hosted.followed.notify_one();
                    }
                    Verdict::Store
                }
                Err(error) => Verdict::Refuse(error.answer()),
            },
            Outcome::Broadcast => Verdict::Broadcast,
            _ => Verdict::Refuse(core.answer(event, &decision)),
        })
    }

    fn process_deferred<'a>(&'a self, event: Event, source: EventSource) -> BoxFuture<'a, Answer> {
        self.core.process(event, source).boxed()
    }

    fn defers(&self, event: &Event) -> bool {
        let git = [kinds::ANNOUNCEMENT, kinds::STATE];
        git.contains(&event.kind) || kinds::is_request(event.kind) || PullRequest::is_one(event)
    }

    fn share(&self, event: &Event, source: EventSource) -> Option<Share> {
        let is_unrelated = match source.origin {
            // A pull request makes a ref in other people's repositories.
            Origin::Submitted => {
                kinds::TAKEN_FROM_ANYBODY.contains(&event.kind)
                    || (PullRequest::is_one(event) && !self.core.is_by_maintainer(event))
            }
            // A profile that tags something comes with what was asked for, whatever its author. Of all
            // others, relays are asked for what relates to something here.
            Origin::Synced => {
                let is_profile = profiles::KINDS.contains(&event.kind);
                event.kind == kinds::GRASP_LIST
                    || (is_profile && !self.core.is_known_now(&event.pubkey))
            }
        };
        if is_unrelated {
            return Some(Share::Unrelated);
        }
        match source.origin {
            // What is deferred has its bounds where it waits; pull requests may wait for nothing.
            Origin::Submitted => {
                let is_bounded = self.defers(event) && !PullRequest::is_one(event);
                (!is_bounded).then_some(Share::Related)
            }
            // Who runs a relay can have any number of keys sign what relates to something here, and it
            // stays. The relays that the operator named are trusted with it.
            Origin::Synced => (!source.is_configured).then_some(Share::Synced),
        }
    }

    fn share_bytes(&self, event: &Event, bytes: usize) -> usize {
        if profiles::KINDS.contains(&event.kind) {
            bytes.max(profiles::SHARE_BYTES)
        } else if PullRequest::is_one(event) {
            bytes.max(PULL_REQUEST_BYTES)
        } else {
            bytes
        }
    }

    fn noted(&self, event: &Event, answer: &Answer) {
        if !answer.accepted {
            self.core
                .refusals
                .note_again(event, &answer.message, timestamp());
        }
    }
}

impl Core {
    pub(crate) async fn process(self: &Arc<Self>, event: Event, source: EventSource) -> Answer {
        let identifier = own_identifier(&event).filter(|_| event.kind == kinds::ANNOUNCEMENT);
        let addr = identifier.map(|identifier| RepoAddr::new(event.pubkey, identifier));
        let answer = self.process_held_back(event, source).await;
        if let Some(addr) = addr.filter(|_| answer.accepted) {
            self.recover(&addr).await;
        }
        answer
    }

    /// The same, and nothing else comes back with it.
    pub(crate) fn process_held_back<'a>(
        self: &'a Arc<Self>,
        event: Event,
        source: EventSource,
    ) -> BoxFuture<'a, Answer> {
        // What it changes has its id and its author in the log.
        let span = tracing::info_span!("event", id = %event.id, of = npub(&event.pubkey));
        let processing = async move {
            let processed = if let Err(error) = self.has_room_for(&event).await {
                Err(error)
            } else if event.kind == kinds::ANNOUNCEMENT {
                self.process_announcement(&event, source).await
            } else if event.kind == kinds::STATE {
                self.process_state(&event, source).await
            } else if event.kind == kinds::DELETION {
                self.process_deletion(&event, source).await
            } else if event.kind == kinds::VANISH {
                self.process_vanish(&event, source).await
            } else {
                self.process_pull_request(&event, source).await
            };
            processed.unwrap_or_else(|error| {
                let answer = error.answer();
                self.refusals
                    .note_event(&event, &answer.message, Vec::new(), timestamp());
                answer
            })
        };
        Box::pin(processing.instrument(span))
    }

    /// Asks admission about an event that just came. Blocks.
    fn judge(&self, event: &Event, source: EventSource) -> Result<Decision, GraspError> {
        let policy = self.policy.load();
        let decision = self.look(|view| admit(event, view, &policy, arrival(source)))?;
        Ok(decision)
    }

    /// Says whether the author of a pull request owns all that it names, or is listed by its owners. What
    /// cannot be read is not theirs. Blocks no longer than a few looks by key.
    fn is_by_maintainer(&self, event: &Event) -> bool {
        let policy = self.policy.load();
        let judged = self.look(|view| by_maintainer(event, view, &policy));
        judged.unwrap_or(false)
    }

    pub(crate) async fn decide(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Decision, GraspError> {
        let event = event.clone();
        let judge = move |core: &Self| core.judge(&event, source);
        self.blocking("grasp.judge", judge).await?
    }

    /// The `OK` for a decision; refusals are remembered for `explain`.
    fn answer(&self, event: &Event, decision: &Decision) -> Answer {
        let (accepted, message) = decision.answer();
        let message = message.into_owned();
        if decision.legacy_only {
            tracing::info!(id = %event.id, author = %event.pubkey, "authorised by the legacy maintainer rule alone");
        }
        let what = if accepted {
            "held a state"
        } else {
            "refused a state"
        };
        self.note_denials(what, &event.pubkey, &decision.denials);
        if let Outcome::Refuse(reason) = &decision.outcome {
            self.refusals.count(reason.cause.name());
            for effect in &decision.effects {
                if let Effect::UseRequest(id) = effect {
                    self.used_requests.note(*id);
                }
            }
            let steps = in_words(&decision.steps);
            self.refusals
                .note_event(event, &message, steps, timestamp());
        }
        Answer { accepted, message }
    }
}

/// The rules that were asked, and what each said.
pub(crate) fn in_words(steps: &[Step]) -> Vec<String> {
    steps.iter().map(ToString::to_string).collect()
}

fn arrival(source: EventSource) -> Arrival {
    Arrival {
        now: timestamp(),
        origin: source.origin,
    }
}
