//! Kinds 5 and 62: what an author takes back, in purgatory and in git (G01-54 … G01-56, G01-101 …
//! G01-120).

use std::collections::{BTreeMap, BTreeSet};

use grip_nostr::{
    Address, Announcement, Deletion, Event, EventId, PublicKey, PullRequest, RepoAddr, first_value,
    kinds,
};
use grip_types::Identifier;

use super::{
    Announcements, Decision, Effect, EventStatus, Outcome, Reason, View, ViewError,
    decision::Trail,
    pull_request::{contributor_repositories, identifiers, targets},
};
use crate::{departures::Departure, enforce::is_hosted, policy::Policy};

pub(super) fn judge(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
    mut trail: Trail,
) -> Result<Decision, ViewError> {
    let deletion = Deletion::parse(event.clone()).expect("only a kind 5 is judged as one");
    let is_target = |tag: &&nostr::prelude::Tag| ["e", "a"].contains(&tag.kind());
    if event.tags.iter().filter(is_target).count() > Deletion::MAX_TARGETS {
        let most = Deletion::MAX_TARGETS;
        let text = format!("too many deletion targets; {most} at most");
        return Ok(trail.refuse("G01-102", Reason::invalid(text)));
    }
    for id in &deletion.ids {
        let target = view.served_event(id)?;
        if target.is_some_and(|target| target.pubkey != event.pubkey) {
            let text = "cannot delete event authored by another pubkey";
            return Ok(trail.refuse("G01-102", Reason::invalid(text)));
        }
    }
    if policy.ignores_deletions {
        trail.note("G01-121", "kept, and deletes nothing here");
        return Ok(trail.end(Outcome::Serve));
    }
    let mut plan = Plan::default();
    for id in &deletion.ids {
        plan.add_id(&deletion, id, view)?;
    }
    for address in &deletion.addresses {
        if let Some(repository) = address.repository() {
            if address.kind == kinds::STATE {
                plan.add_state_address(&deletion, repository, view)?;
            } else {
                plan.add_announcement_address(&deletion, repository, view, policy)?;
            }
        }
    }
    trail.note(
        "G01-55",
        "kept for a while, and acts on its author's events only",
    );
    plan.finish(&event.pubkey, view, policy, &mut trail)?;
    Ok(trail.end(Outcome::Serve))
}

pub(super) fn judge_vanish(event: &Event, policy: &Policy, mut trail: Trail) -> Decision {
    let text = if policy.is_vanish(event) {
        "names this server: all its author made up to then goes, for good"
    } else {
        "does not name this server, or deletions are ignored here: kept, and does nothing"
    };
    trail.note("G01-117", text);
    trail.end(Outcome::Serve)
}

/// The repositories of each name: one request may take back hundreds of pull requests of one.
type HostedByName = BTreeMap<Identifier, Vec<RepoAddr>>;

/// What of the author's goes.
#[derive(Default)]
struct Plan {
    announcements: BTreeMap<Identifier, (Announcement, EventStatus)>,
    held_states: BTreeMap<Identifier, Vec<EventId>>,
    /// Identifiers that lose a served state.
    served_states: BTreeSet<Identifier>,
    pull_requests: Vec<(PullRequest, EventStatus)>,
    /// Repositories whose owner left before: they can be read for the rest of their day.
    departed: BTreeSet<RepoAddr>,
}

impl Plan {
    fn add_id(
        &mut self,
        deletion: &Deletion,
        id: &EventId,
        view: &dyn View,
    ) -> Result<(), ViewError> {
        let (event, status) = match view.served_event(id)? {
            Some(event) => (Some(event), EventStatus::Served),
            None => (view.held_event(id)?, EventStatus::Held),
        };
        if let Some(event) = event.filter(|event| deletion.covers(event)) {
            self.add(event, status);
        }
        Ok(())
    }

    fn add(&mut self, event: Event, status: EventStatus) {
        if event.kind == kinds::STATE {
            let identifier = first_value(&event, "d").unwrap_or_default();
            if let Ok(identifier) = Identifier::parse(identifier) {
                self.add_state(identifier, event.id, status);
            }
        } else if let Ok(announcement) = Announcement::parse(event.clone()) {
            let identifier = announcement.identifier.clone();
            self.announcements
                .insert(identifier, (announcement, status));
        } else if let Ok(request) = PullRequest::parse(event) {
            self.pull_requests.push((request, status));
        }
    }

    fn add_state(&mut self, identifier: Identifier, id: EventId, status: EventStatus) {
        if status == EventStatus::Served {
            self.served_states.insert(identifier);
        } else {
            self.held_states.entry(identifier).or_default().push(id);
        }
    }

    fn add_state_address(
        &mut self,
        deletion: &Deletion,
        repository: RepoAddr,
        view: &dyn View,
    ) -> Result<(), ViewError> {
        let mut address = Address::of_announcement(&repository);
        address.kind = kinds::STATE;
        if let Some(served) = view.latest(&address)?
            && deletion.covers(&served)
        {
            self.add(served, EventStatus::Served);
        }
        for held in view.held_states(&repository.identifier)? {
            let covered = held.created_at <= deletion.event.created_at;
            if covered && held.author == repository.owner {
                self.add_state(repository.identifier.clone(), held.id, EventStatus::Held);
            }
        }
        Ok(())
    }

    fn add_announcement_address(
        &mut self,
        deletion: &Deletion,
        repository: RepoAddr,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<(), ViewError> {
        if let Some(served) = view.latest(&Address::of_announcement(&repository))?
            && deletion.covers(&served)
        {
            self.add(served, EventStatus::Served);
        }
        if let Some(held) = view.held_announcement(&repository)?
            && deletion.covers(&held)
        {
            self.add(held, EventStatus::Held);
        }
        let request = &deletion.event;
        let departure = departure_of(&repository, view, policy)?;
        if repository.owner == request.pubkey
            && departure.is_some_and(|it| it.created_at <= request.created_at)
        {
            self.departed.insert(repository);
        }
        Ok(())
    }

    fn finish(
        mut self,
        author: &PublicKey,
        view: &dyn View,
        policy: &Policy,
        trail: &mut Trail,
    ) -> Result<(), ViewError> {
        for (identifier, (announcement, status)) in &self.announcements {
            give_up(announcement, *status, trail);
            let left = Announcements::load(identifier, view, policy)?.without(author);
            let orphaned = left.orphaned(view)?;
            let dropped = self.held_states.entry(identifier.clone()).or_default();
            dropped.extend(orphaned);
        }
        for identifier in &self.served_states {
            let repository = RepoAddr::new(*author, identifier.clone());
            if departure_of(&repository, view, policy)?.is_some() {
                self.departed.insert(repository);
            }
        }
        for (identifier, ids) in self.held_states {
            trail.drop_states(&identifier, ids);
        }
        let mut hosted = HostedByName::default();
        for (request, status) in self.pull_requests {
            drop_pull_request(&request, status, view, policy, &mut hosted, trail)?;
        }
        for addr in &self.departed {
            trail.note("G01-106", format!("{addr}, which its owner had left, goes"));
            trail.then(Effect::EndGrace(addr.clone()));
        }
        let departed = self.departed.into_iter().map(|addr| addr.identifier);
        let announcements = self.announcements.into_keys().chain(departed);
        let concerned: BTreeSet<_> = announcements.chain(self.served_states).collect();
        for identifier in concerned {
            trail.then(Effect::Reexamine(identifier));
        }
        Ok(())
    }
}

/// The announcement by which an owner has left who is not back.
fn departure_of(
    repository: &RepoAddr,
    view: &dyn View,
    policy: &Policy,
) -> Result<Option<Departure>, ViewError> {
    let Some(departure) = view.departure(repository)? else {
        return Ok(None);
    };
    // After a ban that was taken back the departure is the very announcement that is served again.
    let returns = |event: &Event| {
        let is_hosted = || is_hosted(event, policy);
        departure.is_over_by(event) || departure.id == event.id && is_hosted()
    };
    let served = view.latest(&Address::of_announcement(repository))?;
    let held = view.held_announcement(repository)?;
    let is_back = [served, held].iter().flatten().any(returns);
    Ok((!is_back).then_some(departure))
}

/// Ends what an announcement stood for. One that is served and lists us no more may have a repository
/// that can be read for the rest of its day.
fn give_up(announcement: &Announcement, status: EventStatus, trail: &mut Trail) {
    let addr = announcement.addr();
    if status == EventStatus::Served {
        trail.note("G01-106", format!("the served announcement of {addr} goes"));
        trail.then(Effect::EndGrace(addr));
    } else {
        trail.note("G01-56", format!("the held announcement of {addr} goes"));
        trail.then(Effect::EvictAnnouncement(addr));
    }
}

fn drop_pull_request(
    request: &PullRequest,
    status: EventStatus,
    view: &dyn View,
    policy: &Policy,
    hosted: &mut HostedByName,
    trail: &mut Trail,
) -> Result<(), ViewError> {
    let event = request.event.id;
    if status != EventStatus::Served {
        trail.then(Effect::DropPullRequest(event));
    }
    // Sets may have changed since the ref was made, so every repository it can be in is named.
    let mut targets = targets(request, view, policy)?;
    targets.extend_from_slice(&request.targets);
    let mut repositories = view.placeholders(&event)?;
    repositories.extend(contributor_repositories(request, policy));
    for identifier in identifiers(&targets) {
        if !hosted.contains_key(identifier) {
            let announcements = Announcements::load(identifier, view, policy)?;
            hosted.insert(identifier.clone(), announcements.hosted().collect());
        }
        repositories.extend_from_slice(&hosted[identifier]);
    }
    repositories.sort();
    repositories.dedup();
    trail.note("G01-110", "its pull request goes, and refs/nostr with it");
    trail.then(Effect::ClearPullRequestRef {
        event,
        repositories,
        unless: None,
    });
    Ok(())
}
