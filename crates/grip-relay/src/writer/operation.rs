//! Operations of a commit: each is applied as a whole or not at all.

use grip_nostr::{
    Event, EventId, Timestamp,
    kinds::{self, Class},
};
use grip_store::{EventView, Put, StoreError, WriteView};

use super::{Change, WriteError};
use crate::{Answer, Verdict, WritePolicy, policy::answer_to_put};

/// The smallest part of a group that can be tried alone.
pub(super) enum Operation<'j> {
    Judge(&'j Event, &'j dyn WritePolicy),
    Save(&'j [Event]),
    Remove(&'j [EventId]),
    Change(&'j [Event], &'j Change),
}

pub(super) enum Outcome {
    Judged {
        answer: Answer,
        /// Subscribers are to hear of it.
        fresh: bool,
    },
    Written(Vec<Put>),
    Failed(WriteError),
}

impl Operation<'_> {
    /// Does its part of the transaction.
    pub(super) fn apply(
        &self,
        view: &mut WriteView<'_>,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        match self {
            Self::Judge(event, policy) => judge(event, *policy, view, now),
            Self::Save(events) => {
                let puts: Result<Vec<Put>, _> =
                    events.iter().map(|event| view.put(event, now)).collect();
                puts.map(Outcome::Written)
            }
            Self::Remove(ids) => {
                for id in *ids {
                    view.remove(id)?;
                }
                Ok(Outcome::Written(Vec::new()))
            }
            Self::Change(events, change) => change(events, view, now).map(Outcome::Written),
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Judge(..) => 1,
            Self::Save(events) | Self::Change(events, _) => events.len() as u64,
            Self::Remove(_) => 0,
        }
    }

    /// The events that subscribers do not know yet.
    pub(super) fn fresh(&self, outcome: &Outcome) -> Vec<&Event> {
        match (self, outcome) {
            (Self::Judge(event, _), Outcome::Judged { fresh: true, .. }) => vec![event],
            (Self::Save(events) | Self::Change(events, _), Outcome::Written(puts)) => events
                .iter()
                .zip(puts)
                .filter(|(_, put)| matches!(put, Put::Stored { .. }))
                .map(|(event, _)| event)
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Tells the policy of a refusal.
    pub(super) fn note(&self, outcome: &Outcome) {
        if let (Self::Judge(event, policy), Outcome::Judged { answer, .. }) = (self, outcome)
            && !answer.accepted
        {
            policy.noted(event, answer);
        }
    }
}

fn judge(
    event: &Event,
    policy: &dyn WritePolicy,
    view: &mut WriteView<'_>,
    now: Timestamp,
) -> Result<Outcome, StoreError> {
    let ephemeral = kinds::class(event.kind) == Class::Ephemeral;
    let (answer, fresh) = match policy.judge(event, &*view, now)? {
        Verdict::Refuse(answer) => (answer, false),
        Verdict::Broadcast => (Answer::accepted(""), true),
        // Whatever the policy says: an ephemeral event is for those who listen now.
        Verdict::Store if ephemeral => (Answer::accepted(""), true),
        Verdict::Store => {
            let put = view.put(event, now)?;
            let answer = answer_to_put(&put, lost_a_tie(event, &put, view)?);
            (answer, matches!(put, Put::Stored { .. }))
        }
    };
    Ok(Outcome::Judged { answer, fresh })
}

/// Says whether the event lost to one of the same second.
fn lost_a_tie(event: &Event, put: &Put, view: &WriteView<'_>) -> Result<bool, StoreError> {
    let Put::Superseded { by } = put else {
        return Ok(false);
    };
    let winner = view.get(by)?;
    Ok(winner.is_some_and(|winner| winner.created_at == event.created_at))
}

impl Outcome {
    pub(super) fn into_answer(self) -> Answer {
        match self {
            Self::Judged { answer, .. } => answer,
            Self::Written(_) => Answer::accepted(""),
            Self::Failed(error) => Answer::refused(format!("error: {error}; try again later")),
        }
    }

    pub(super) fn into_puts(self) -> Result<Vec<Put>, WriteError> {
        match self {
            Self::Judged { .. } => Ok(Vec::new()),
            Self::Written(puts) => Ok(puts),
            Self::Failed(error) => Err(error),
        }
    }
}
