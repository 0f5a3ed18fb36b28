//! Decisions on checked events, whichever way they came: over a connection, or read from elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use grip_nostr::{Event, Timestamp, kinds};
use grip_types::{Charge, ClientNetwork, EventSource};
use tracing::Instrument as _;

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
    /// It was refused because its network has used up its share.
    pub is_over_share: bool,
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
            return vec![Admission::unauthentic(answer); count];
        };
        let mut admitted = Vec::with_capacity(count);
        let mut run = Vec::new();
        for event in checked {
            let taken = event.and_then(|event| {
                let taken = take_share(shared, policy.as_ref(), source, &event);
                let taken = taken.map_err(Admission::over_share)?;
                Ok((event, taken))
            });
            match taken {
                Ok((event, taken)) if !policy.defers(&event) => run.push((event, taken)),
                other => {
                    admitted.extend(judge_run(shared, policy, &mut run, source).await);
                    admitted.push(match other {
                        Ok((event, taken)) => {
                            let settled = settle(shared, policy, event, taken, source);
                            Admission::authentic(settled.await)
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
            is_over_share: false,
        }
    }

    fn unauthentic(answer: Answer) -> Self {
        Self {
            is_authentic: false,
            ..Self::authentic(answer)
        }
    }

    fn over_share(answer: Answer) -> Self {
        Self {
            is_over_share: true,
            ..Self::authentic(answer)
        }
    }
}

/// What an indexed tag takes on the disk beside the event, about; and the row of a target of a deletion
/// request, which is kept whether the target is known or not.
const INDEX_BYTES: usize = 96;

/// Bytes that an event took of its network's, ahead of the decision on it.
pub(crate) struct TakenBytes {
    network: ClientNetwork,
    share: Share,
    bytes: u64,
}

impl TakenBytes {
    /// Gives back what the answer leaves free. Dropping it gives nothing back.
    pub(crate) fn settle(self, shared: &Shared, answer: &Answer) {
        let Self {
            network,
            share,
            bytes,
        } = self;
        let cost = charge(answer).of(bytes);
        shared.bytes_of(share).give_back(network, bytes - cost);
    }
}

/// What has become of an event, by the answer to it.
fn charge(answer: &Answer) -> Charge {
    match answer.prefix() {
        // The writer, the store or the database failed; or it is here already.
        Some("error" | "duplicate") => Charge::NotDone,
        _ if answer.accepted => Charge::Kept,
        _ => Charge::Refused,
    }
}

/// Takes the bytes of an event of its network's, or refuses it: they are too many of its kind of events.
/// None where no bound applies.
pub(crate) fn take_share(
    shared: &Shared,
    policy: &dyn WritePolicy,
    source: EventSource,
    event: &Event,
) -> Result<Option<TakenBytes>, Answer> {
    let share = policy.share(event, source);
    let (Some(network), Some(share)) = (source.network, share) else {
        return Ok(None);
    };
    let bytes = stored_bytes(event);
    let bytes = policy.share_bytes(event, bytes) as u64;
    if shared.bytes_of(share).take(network, bytes) {
        return Ok(Some(TakenBytes {
            network,
            share,
            bytes,
        }));
    }
    let kind = event.kind.as_u16();
    Err(Answer::refused(format!(
        "rate-limited: events of kind {kind} from your network take too many bytes; try again in an hour"
    )))
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
        ..Admission::authentic(answer)
    })
}

async fn judge_run(
    shared: &Shared,
    policy: &Arc<dyn WritePolicy>,
    run: &mut Vec<(Event, Option<TakenBytes>)>,
    source: EventSource,
) -> Vec<Admission> {
    if run.is_empty() {
        return Vec::new();
    }
    let (events, taken): (Vec<_>, Vec<_>) = run.drain(..).unzip();
    let answers = judge(shared, policy, events, taken, source).await;
    answers.into_iter().map(Admission::authentic).collect()
}

/// Has ordinary events decided by the writer in one go.
pub(crate) async fn judge(
    shared: &Shared,
    policy: &Arc<dyn WritePolicy>,
    run: Vec<Event>,
    taken: Vec<Option<TakenBytes>>,
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
    for (taken, answer) in taken.into_iter().zip(&answers) {
        if let Some(taken) = taken {
            taken.settle(shared, answer);
        }
    }
    answers
}

/// Has a deferred event decided by the policy, in a task of its own, because it must not be left
/// half done when the client goes away.
pub(crate) async fn settle(
    shared: &Shared,
    policy: &Arc<dyn WritePolicy>,
    event: Event,
    taken: Option<TakenBytes>,
    source: EventSource,
) -> Answer {
    let turn = shared.settling.acquire(source.network, 1).await;
    let policy = Arc::clone(policy);
    let settling = async move {
        let _turn = turn;
        policy.process_deferred(event, source).await
    };
    // The log says from which address refs were changed.
    let settling = settling.in_current_span();
    let settled = shared.group.spawn("relay-settle", settling);
    let answer = settled.await.unwrap_or_else(|_| {
        Answer::refused("error: this event could not be settled; try again later")
    });
    shared.stats.answered(&answer);
    if let Some(taken) = taken {
        taken.settle(shared, &answer);
    }
    answer
}

/// What an event takes on the disk, about.
fn stored_bytes(event: &Event) -> usize {
    let json = serde_json::to_vec(event).map_or(usize::MAX, |json| json.len());
    let is_deletion = event.kind == kinds::DELETION;
    let rows = event.tags.iter().map(|tag| match tag.as_slice().first() {
        Some(name) if is_deletion && matches!(name.as_str(), "a" | "e") => 2,
        Some(name) if name.len() == 1 => 1,
        _ => 0,
    });
    json.saturating_add(rows.sum::<usize>() * INDEX_BYTES)
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{EventBuilder, FinalizeEvent as _, Keys, Kind, Tag};

    use super::*;

    #[test]
    fn each_target_of_a_deletion_request_counts_for_its_tag_and_for_its_row() {
        let rows = |kind: Kind| {
            let targets = (0..10).map(|n| Tag::parse(["e", &format!("{n:064}")]).unwrap());
            let event = EventBuilder::new(kind, "").tags(targets);
            let event = event.finalize(&Keys::generate()).unwrap();
            (stored_bytes(&event) - serde_json::to_vec(&event).unwrap().len()) / INDEX_BYTES
        };
        assert_eq!(rows(Kind::TextNote), 10);
        assert_eq!(rows(kinds::DELETION), 20);
    }
}
