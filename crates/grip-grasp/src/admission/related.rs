//! Everything else: accepted if it speaks of, or is spoken of by, something served (G01-7).

use grip_nostr::{
    Address, Event, Kind, address_of,
    kinds::{self, Class},
    references,
};

use super::{Cause, Decision, Outcome, Prefix, Reason, View, ViewError, decision::Trail};
use crate::policy::Policy;

pub(super) fn judge(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
    mut trail: Trail,
) -> Result<Decision, ViewError> {
    if let Some(text) = unwanted(event.kind) {
        let reason = Reason::new(Prefix::Blocked, Cause::Kind, text);
        return Ok(trail.refuse("G01-7", reason));
    }
    if event.kind == kinds::GRASP_LIST {
        trail.note("G01-10", "a list of grasp servers is taken from anyone");
        return Ok(trail.end(Outcome::Serve));
    }
    match relation(event, view, policy)? {
        Relation::Served(how) => {
            trail.note("G01-7", how);
            let ephemeral = kinds::class(event.kind) == Class::Ephemeral;
            Ok(trail.end(if ephemeral {
                Outcome::Broadcast
            } else {
                Outcome::Serve
            }))
        }
        Relation::HeldOnly => Ok(trail.refuse("G01-8", no_git_data())),
        Relation::None => {
            let text = "not related to any repository, issue, patch or pull request served here";
            let reason = Reason::new(Prefix::Blocked, Cause::Unrelated, text);
            Ok(trail.refuse("G01-7", reason))
        }
    }
}

pub(super) fn no_git_data() -> Reason {
    Reason::new(
        Prefix::Blocked,
        Cause::NoGitData,
        "repository has no git data yet; send this again after its first push",
    )
}

/// How an event is tied to what is here.
pub(super) enum Relation {
    Served(&'static str),
    /// Only to what waits for git data itself.
    HeldOnly,
    None,
}

/// Kinds that are refused whatever they refer to.
fn unwanted(kind: Kind) -> Option<&'static str> {
    match kind.as_u16() {
        // Direct messages and their wrappings: nobody looks for them on a git server.
        4 | 13..=15 | 1059 | 21_059 => Some("private messages are not taken here"),
        _ if kind == kinds::AUTH => Some("kind 22242 belongs into an AUTH message"),
        _ => None,
    }
}

/// Events that anyone may store relate nothing: else one would be a licence for any spam.
fn relates(kind: Kind) -> bool {
    !kinds::is_request(kind) && kind != kinds::GRASP_LIST
}

fn relation(event: &Event, view: &dyn View, policy: &Policy) -> Result<Relation, ViewError> {
    let named = references(event);
    for address in &named.addresses {
        if is_served(address, view, policy)? {
            return Ok(Relation::Served("names a served address"));
        }
    }
    for id in &named.ids {
        if view.served_kind(id)?.is_some_and(relates) {
            return Ok(Relation::Served("names a served event"));
        }
    }
    if view.is_referenced(&event.id)? {
        return Ok(Relation::Served("a served event names it"));
    }
    if let Some(address) = address_of(event)
        && view.is_address_referenced(&address)?
    {
        return Ok(Relation::Served("a served event names its address"));
    }
    for address in &named.addresses {
        if is_address_held(address, view)? {
            return Ok(Relation::HeldOnly);
        }
    }
    for id in &named.ids {
        if view.is_kept(id)? {
            return Ok(Relation::HeldOnly);
        }
    }
    Ok(Relation::None)
}

/// A repository is also known by the address of its owner's state (G01-8).
fn is_served(address: &Address, view: &dyn View, policy: &Policy) -> Result<bool, ViewError> {
    let repository = address.repository();
    if repository.as_ref().is_some_and(|r| policy.bans(r)) || !relates(address.kind) {
        return Ok(false);
    }
    if view.is_address_served(address)? {
        return Ok(true);
    }
    match repository.filter(|_| address.kind == kinds::STATE) {
        Some(repository) => view.is_address_served(&Address::of_announcement(&repository)),
        None => Ok(false),
    }
}

pub(super) fn is_address_held(address: &Address, view: &dyn View) -> Result<bool, ViewError> {
    let Some(repository) = address.repository() else {
        return Ok(false);
    };
    view.is_announcement_held(&repository)
}
