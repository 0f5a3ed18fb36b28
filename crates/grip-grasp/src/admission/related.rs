//! Everything else: accepted if it speaks of, or is spoken of by, something served (G01-7).

use grip_nostr::{
    Address, Event, Kind, address_of,
    kinds::{self, Class},
    references,
};

use super::{Cause, Decision, Effect, Outcome, Prefix, Reason, View, ViewError, decision::Trail};
use crate::{policy::Policy, profiles};

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
    let found = if policy.is_service(&event.pubkey) {
        Relation::Served("E-4: this service speaks itself")
    } else if profiles::KINDS.contains(&event.kind) {
        return profile(event, view, trail);
    } else {
        relation(event, view, policy)?
    };
    match found {
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

/// Profiles and relay lists: of those who are known here, and of newcomers for a day (G03-5).
fn profile(event: &Event, view: &dyn View, mut trail: Trail) -> Result<Decision, ViewError> {
    if view.is_known(&event.pubkey)? {
        trail.note("G03-5", "its author takes part in something served here");
        return Ok(trail.end(Outcome::Serve));
    }
    if !profiles::is_small(event) {
        let text = "the profile of somebody who takes part in nothing here may have 16 KiB";
        let reason = Reason::new(Prefix::Blocked, Cause::Unrelated, text);
        return Ok(trail.refuse("G03-5", reason));
    }
    trail.note(
        "G03-5",
        "its author is new here: it stays for a day, or until they take part in something",
    );
    trail.then(Effect::NoteNewcomer);
    Ok(trail.end(Outcome::Serve))
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
        // Records that another server keeps about its own removals.
        9_905..=9_907 => Some("records of a server about itself are not taken here"),
        10_318 => Some("lists of private servers are kept on ordinary relays"),
        _ if kind == kinds::AUTH => Some("kind 22242 belongs into an AUTH message"),
        _ => None,
    }
}

fn relates(kind: Kind) -> bool {
    !kinds::TAKEN_FROM_ANYBODY.contains(&kind)
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
