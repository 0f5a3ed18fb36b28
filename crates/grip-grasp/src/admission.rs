//! Decisions on events: served, held or refused, and why.
//!
//! Invariant: pure. The same function answers a client, a synced event, a dry run and `explain`;
//! it reads through [`View`] and writes nothing. What has to be done about a decision is listed
//! in its effects, refusals included.

mod announcement;
mod announcement_cache;
mod announcements;
mod concerned;
mod decision;
mod deletion;
mod pull_request;
mod related;
mod state;
mod view;

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;

use grip_nostr::{Event, PullRequest, Timestamp, expiration, kinds};
use grip_types::Origin;

pub(crate) use announcement_cache::{KnownAnnouncement, ReadAnnouncement, ReadAnnouncements};
pub(crate) use announcements::{Announcements, Denial, EventStatus, Grant, why_not};
pub(crate) use concerned::{by_request, concerned, own_identifier};
#[cfg(test)]
pub(crate) use decision::HELD;
pub(crate) use decision::{Cause, ClearedRefs, Decision, Effect, Outcome, Reason, Step};
pub(crate) use pull_request::{
    Receiver, by_maintainer, contributor_repositories, is_banned, is_relevant, targets,
};
pub(crate) use state::effective_state;
pub(crate) use view::{Found, HeldState, RequestRefs, View, ViewError};

use crate::policy::Policy;
use decision::{Prefix, Trail};

/// How and when an event came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Timestamp,
    pub(crate) origin: Origin,
}

/// Decides about `event`, whose signature and size have been checked already.
pub(crate) fn admit(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
    arrival: Arrival,
) -> Result<Decision, ViewError> {
    let mut trail = Trail::default();
    if let Some(end) = known_already(event, view, policy, arrival, &mut trail)? {
        return Ok(trail.end(end));
    }
    match event.kind {
        kind if kind == kinds::ANNOUNCEMENT => announcement::judge(event, view, policy, trail),
        kind if kind == kinds::STATE => state::judge(event, view, policy, trail),
        kind if kind == kinds::DELETION => deletion::judge(event, view, policy, trail),
        kind if kind == kinds::VANISH => Ok(deletion::judge_vanish(event, policy, trail)),
        _ if PullRequest::is_one(event) => pull_request::judge(event, view, policy, trail),
        _ => related::judge(event, view, policy, trail),
    }
}

/// What holds for every kind: bans, expiry, duplicates and deletions of long ago.
fn known_already(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
    arrival: Arrival,
    trail: &mut Trail,
) -> Result<Option<Outcome>, ViewError> {
    let refuse = |trail: &mut Trail, rule, reason: Reason| {
        trail.note(rule, reason.text.clone());
        Ok(Some(Outcome::Refuse(reason)))
    };
    if policy.bans_author(&event.pubkey) {
        let text = "the operator of this server does not take events of this author";
        return refuse(
            trail,
            "G01-9",
            Reason::new(Prefix::Blocked, Cause::Banned, text),
        );
    }
    if expiration(event).is_some_and(|end| end <= arrival.now) {
        let text = "the event's own expiration time has passed";
        return refuse(
            trail,
            "NIP-40",
            Reason::new(Prefix::Invalid, Cause::Expired, text),
        );
    }
    if view.served_kind(&event.id)?.is_some() {
        trail.note("NIP-01", "this very event is served already");
        return Ok(Some(Outcome::Duplicate(EventStatus::Served)));
    }
    if needs_git(event) && view.is_held(&event.id)? {
        trail.note("G01-12", "this very event is held already");
        return Ok(Some(Outcome::Duplicate(EventStatus::Held)));
    }
    if kinds::is_request(event.kind) && view.is_request_retired(&event.id)? {
        trail.note(
            "G01-116",
            "this very request is known, and not served any more",
        );
        return Ok(Some(Outcome::Retired));
    }
    if !policy.ignores_deletions
        && let Some(request) = view.deletion_of(event)?
    {
        trail.then(Effect::UseRequest(request));
        let request = &request.to_hex()[..8];
        let text =
            format!("this event is deleted: its author's deletion request {request}… covers it");
        return refuse(
            trail,
            "G01-55",
            Reason::new(Prefix::Invalid, Cause::Deleted, text),
        );
    }
    if arrival.origin == Origin::Synced && needs_git(event) && view.is_wanted(&event.id)? {
        trail.note("G02-2", "it came before, and its data is still looked for");
        return Ok(Some(Outcome::Duplicate(EventStatus::Held)));
    }
    if arrival.origin == Origin::Synced && needs_git(event) && view.expired_before(&event.id)? {
        let text = "previously expired from purgatory without git data";
        return refuse(
            trail,
            "G01-20",
            Reason::new(Prefix::Invalid, Cause::Expired, text),
        );
    }
    Ok(None)
}

/// The kinds that wait for git data (G01-52: patches do not).
fn needs_git(event: &Event) -> bool {
    [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind) || PullRequest::is_one(event)
}
