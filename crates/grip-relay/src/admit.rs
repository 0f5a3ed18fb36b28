//! Decisions on checked events, whichever way they came: over a connection, or read from elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use grip_nostr::{Event, Timestamp};
use grip_types::EventSource;
use nostr::prelude::Tag;

use crate::{
    Answer, Relay, Share, WritePolicy,
    event::{self, Checked},
    relay::Shared,
};

/// What became of an event that was read from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Its id and signature are true.
    pub is_authentic: bool,
    pub answer: Answer,
}

impl Relay {
    /// Puts events that were read from elsewhere, each as `["EVENT", event]`, through the checks
    /// and rules for those that clients send, in their order.
    ///
    /// Events under way are still decided when the future is dropped.
    pub async fn admit(
        &self,
        policy: &Arc<dyn WritePolicy>,
        texts: Vec<Bytes>,
        source: EventSource,
    ) -> Vec<Admission> {
        let shared = self.shared();
        let (limits, count) = (shared.limits, texts.len());
        let check = move || {
            let now = Timestamp::now();
            let check = |text: &Bytes| authenticate(event::check(text, &limits, now));
            texts.iter().map(check).collect::<Vec<_>>()
        };
        let Some(checked) = shared.checkers.run(source.network, check).await else {
            let answer = Answer::refused("error: this event could not be checked");
            let is_authentic = false;
            return vec![
                Admission {
                    is_authentic,
                    answer
                };
                count
            ];
        };
        let mut admitted = Vec::with_capacity(count);
        let mut run = Vec::new();
        for event in checked {
            match event {
                Ok(event) if !policy.defers(&event) => {
                    match beyond_share(shared, policy.as_ref(), source, &event) {
                        None => run.push(event),
                        Some(answer) => {
                            admitted.extend(judge_run(shared, policy, &mut run, source).await);
                            admitted.push(Admission::authentic(answer));
                        }
                    }
                }
                other => {
                    admitted.extend(judge_run(shared, policy, &mut run, source).await);
                    admitted.push(match other {
                        Ok(event) => {
                            Admission::authentic(settle(shared, policy, event, source).await)
                        }
                        Err(refused) => refused,
                    });
                }
            }
        }
        admitted.extend(judge_run(shared, policy, &mut run, source).await);
        admitted
    }
}

impl Admission {
    fn authentic(answer: Answer) -> Self {
        Self {
            is_authentic: true,
            answer,
        }
    }
}

/// What an indexed tag takes on the disk beside the event, about.
const INDEX_BYTES: usize = 96;

/// The refusal of an event whose network has sent too many bytes of its kind of events.
pub(crate) fn beyond_share(
    shared: &Shared,
    policy: &dyn WritePolicy,
    source: EventSource,
    event: &Event,
) -> Option<Answer> {
    let network = source.network?;
    let share = policy.share(event, source.origin)?;
    let json = serde_json::to_vec(event).map_or(usize::MAX, |json| json.len());
    let is_indexed = |tag: &&Tag| tag.as_slice().first().is_some_and(|name| name.len() == 1);
    let indexed = event.tags.iter().filter(is_indexed).count();
    let bytes = json.saturating_add(indexed * INDEX_BYTES);
    let limiter = match share {
        Share::Unrelated => &shared.unrelated,
        Share::Related => &shared.related,
    };
    let allowed = limiter.allows(network, policy.share_bytes(event, bytes));
    let kind = event.kind.as_u16();
    (!allowed).then(|| {
        Answer::refused(format!(
            "rate-limited: events of kind {kind} from your network take too many bytes; try again in an hour"
        ))
    })
}

fn authenticate(checked: Checked) -> Result<Event, Admission> {
    let (is_authentic, answer) = match checked {
        Checked::Event(event) => return Ok(event),
        // Its id is true; whether the signature is was perhaps the question.
        Checked::Refused { answer, event, .. } => {
            (event.is_some_and(|event| event.verify_signature()), answer)
        }
        Checked::Unreadable(text) => (false, Answer::refused(text)),
    };
    Err(Admission {
        is_authentic,
        answer,
    })
}

async fn judge_run(
    shared: &Shared,
    policy: &Arc<dyn WritePolicy>,
    run: &mut Vec<Event>,
    source: EventSource,
) -> Vec<Admission> {
    if run.is_empty() {
        return Vec::new();
    }
    let answers = judge(shared, policy, std::mem::take(run), source).await;
    answers.into_iter().map(Admission::authentic).collect()
}

/// Has ordinary events decided by the writer in one go.
pub(crate) async fn judge(
    shared: &Shared,
    policy: &Arc<dyn WritePolicy>,
    run: Vec<Event>,
    source: EventSource,
) -> Vec<Answer> {
    let count = run.len();
    let judging = shared.writer.judge(run, Arc::clone(policy), source.network);
    let answers = match judging.await {
        Ok(answers) => answers,
        Err(error) => vec![Answer::refused(format!("error: {error}")); count],
    };
    answers
        .iter()
        .for_each(|answer| shared.stats.answered(answer));
    answers
}

/// Has a deferred event decided by the policy, in a task of its own, because it must not be left
/// half done when the client goes away.
pub(crate) async fn settle(
    shared: &Shared,
    policy: &Arc<dyn WritePolicy>,
    event: Event,
    source: EventSource,
) -> Answer {
    let turn = shared.settling.acquire(source.network, 1).await;
    let policy = Arc::clone(policy);
    let settled = shared.group.spawn("relay-settle", async move {
        let _turn = turn;
        policy.process_deferred(event, source).await
    });
    let answer = settled.await.unwrap_or_else(|_| {
        Answer::refused("error: this event could not be settled; try again later")
    });
    shared.stats.answered(&answer);
    answer
}
