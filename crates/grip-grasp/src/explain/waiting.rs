//! Explanation of a waiting event: missing objects, and the search for them.

use std::time::Duration;

use grip_nostr::{Event, EventId, PullRequest, State};
use grip_purgatory::{Millis, can_be_here};
use grip_types::{Identifier, Oid, RefName};

use super::{Explanation, MAX_LISTED, Missing, Status, facts};
use crate::{
    SyncFacts,
    admission::{Announcements, Found, View, ViewError},
    grasp::Core,
    sync::{asks, search},
};

/// What is added for an event whose data can never be here.
const NOT_LOOKED_FOR: &str =
    "; it is not looked for: it names an object by SHA-256, and repositories here are SHA-1";

/// A waiting event, as the purgatory knows it at this moment.
pub(super) struct Claim {
    pub(super) event: Event,
    deadline: Millis,
    identifiers: Vec<Identifier>,
    is_held: bool,
    search: Option<SyncFacts>,
}

impl Core {
    pub(super) fn waiting_claim(&self, id: &EventId) -> Option<Claim> {
        let purgatory = self.purgatory.lock();
        let waiting = purgatory.find_waiting(id)?;
        Some(Claim {
            event: waiting.held().event.unpack(),
            deadline: waiting.held().deadline(),
            identifiers: waiting.identifiers().to_vec(),
            is_held: waiting.is_held(),
            search: search(waiting, &purgatory),
        })
    }

    pub(super) fn explain_waiting(
        &self,
        claim: Claim,
        view: &dyn View,
        to: &mut Explanation,
    ) -> Result<(), ViewError> {
        if claim.is_held {
            to.is(Status::Held, "it is held until its git data arrives");
        } else {
            to.is(Status::Wanted, self.wanted_summary(claim.deadline));
        }
        to.event = Some(facts(&claim.event, Some(claim.deadline)));
        to.deadline = Some(claim.deadline.get());
        let mut missing = missing(&claim.event, view)?;
        let can_come = missing.iter().all(|missing| can_be_here(&missing.oid));
        if !can_come {
            to.summary.push_str(NOT_LOOKED_FOR);
        }
        let search = claim.search.filter(|_| can_come);
        to.attempts = search.map(|search| search.attempt_count);
        to.next_attempt = search.map(|search| search.next_attempt.get());
        to.in_progress = search.is_some_and(|search| search.in_progress);
        to.missing_total = missing.len();
        missing.truncate(MAX_LISTED);
        to.missing = missing;
        let policy = self.policy.load();
        for identifier in &claim.identifiers {
            let announcements = Announcements::load(identifier, view, &policy)?;
            let asked = asks(&claim.event, &announcements, identifier, view, &policy)?;
            for url in asked.into_iter().flat_map(|need| need.urls) {
                if !to.urls.contains(&url) && to.urls.len() < MAX_LISTED {
                    to.urls.push(url);
                }
            }
        }
        to.identifiers = claim.identifiers;
        Ok(())
    }

    fn wanted_summary(&self, deadline: Millis) -> String {
        let end = jiff::Timestamp::from_millisecond(deadline.get()).unwrap_or(jiff::Timestamp::MAX);
        format!(
            "its data did not come within {}; it is looked for every {} until {}",
            in_words(self.bounds.lifetime),
            in_words(self.bounds.wanted_interval).trim_start_matches("1 "),
            end.strftime("%Y-%m-%d %H:%M UTC")
        )
    }
}

/// A duration in its largest whole unit.
fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let fits = |(size, _): &(u64, &str)| seconds >= *size && seconds.is_multiple_of(*size);
    let (size, unit) = units.into_iter().find(fits).unwrap_or((1, "second"));
    match seconds / size {
        1 => format!("1 {unit}"),
        n => format!("{n} {unit}s"),
    }
}

/// The objects an event names that are not here.
pub(crate) fn missing(event: &Event, view: &dyn View) -> Result<Vec<Missing>, ViewError> {
    let (identifiers, wanted) = wants(event);
    let oids: Vec<Oid> = wanted.iter().map(|(_, oid)| *oid).collect();
    let mut is_here = vec![false; oids.len()];
    for identifier in &identifiers {
        let found = view.objects(identifier, &oids)?;
        for (here, found) in is_here.iter_mut().zip(found) {
            *here |= found != Found::Missing;
        }
    }
    let missing = wanted.into_iter().zip(is_here).filter(|(_, here)| !here);
    let missing = missing.map(|((name, oid), _)| Missing { name, oid });
    Ok(missing.collect())
}

/// What an event needs, under which names, and where it may be.
fn wants(event: &Event) -> (Vec<Identifier>, Vec<(String, Oid)>) {
    if let Ok(state) = State::parse(event.clone()) {
        let refs = state
            .refs
            .iter()
            .map(|(name, oid)| (name.to_string(), *oid));
        return (vec![state.identifier.clone()], refs.collect());
    }
    let Ok(request) = PullRequest::parse(event.clone()) else {
        return (Vec::new(), Vec::new());
    };
    let name = RefName::for_nostr_event(event.id.as_bytes()).to_string();
    let targets = request.targets.into_iter().map(|target| target.identifier);
    (targets.collect(), vec![(name, request.tip)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_their_largest_whole_unit() {
        for (seconds, text) in [
            (1_800, "30 minutes"),
            (3_600, "1 hour"),
            (5_400, "90 minutes"),
            (86_400 * 30, "30 days"),
            (5, "5 seconds"),
        ] {
            assert_eq!(in_words(Duration::from_secs(seconds)), text);
        }
    }
}
