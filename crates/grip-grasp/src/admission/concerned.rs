//! The names that an event is about, whose turns are taken before anything is decided.
//!
//! A turn makes everybody wait who uses the name. So an event has those of what its author has here, or
//! is for, and never those that it merely mentions: their number would be the sender's choice.

use std::collections::BTreeSet;

use grip_nostr::{Address, Deletion, Event, PullRequest, first_value, kinds};
use grip_types::Identifier;

use super::{
    View, ViewError,
    pull_request::{
        contributor_repositories, identifiers, names_too_many, spans_too_many, targets,
    },
};
use crate::policy::Policy;

/// The identifier of an announcement or state; none if it has no usable one.
pub(crate) fn own_identifier(event: &Event) -> Option<Identifier> {
    Identifier::parse(first_value(event, "d")?).ok()
}

/// The names whose turns the decision on a pull request or a deletion needs. None for what is refused
/// whatever is here.
pub(crate) fn concerned(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
) -> Result<BTreeSet<Identifier>, ViewError> {
    if let Some(deletion) = Deletion::parse(event.clone()) {
        return by_deletion(&deletion, view);
    }
    match PullRequest::parse(event.clone()) {
        Ok(request) if !names_too_many(&request) => by_request(&request, view, policy),
        _ => Ok(BTreeSet::new()),
    }
}

/// The names under which its author has what it takes back. Refs of pull requests are cleared in the turn
/// of each name, once the request is stored.
fn by_deletion(deletion: &Deletion, view: &dyn View) -> Result<BTreeSet<Identifier>, ViewError> {
    let mut found = BTreeSet::new();
    let names_repository = |kind| [kinds::ANNOUNCEMENT, kinds::STATE].contains(&kind);
    for id in &deletion.ids {
        let target = match view.served_kind(id)? {
            Some(kind) if names_repository(kind) => view.served_event(id)?,
            Some(_) => None,
            None => view.waiting_event(id)?,
        };
        let own = target.filter(|target| {
            target.pubkey == deletion.event.pubkey && names_repository(target.kind)
        });
        found.extend(own.as_ref().and_then(own_identifier));
    }
    for repository in deletion.addresses.iter().filter_map(Address::repository) {
        if !found.contains(&repository.identifier) && view.has_anything(&repository)? {
            found.insert(repository.identifier);
        }
    }
    Ok(found)
}

/// The names of the repositories that a pull request is for, as far as anything is here, and those of the
/// contributor repositories it names.
pub(crate) fn by_request(
    request: &PullRequest,
    view: &dyn View,
    policy: &Policy,
) -> Result<BTreeSet<Identifier>, ViewError> {
    let mut targets = targets(request, view, policy)?;
    if spans_too_many(&targets) {
        targets.clear();
    }
    targets.extend_from_slice(&request.targets);
    let mut found = BTreeSet::new();
    for identifier in identifiers(&targets) {
        if view.is_name_known(identifier)? {
            found.insert(identifier.clone());
        }
    }
    let contributed = contributor_repositories(request, policy).into_iter();
    found.extend(contributed.map(|repository| repository.identifier));
    Ok(found)
}
