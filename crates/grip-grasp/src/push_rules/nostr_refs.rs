//! `refs/nostr/<event-id>`: tips of pull requests, pushed before or after their event.

use std::collections::BTreeMap;

use grip_nostr::{Event, EventId, Kind, PullRequest, RepoAddr};
use grip_types::{Oid, RefEdit};

use super::Refs;
use crate::{
    admission::{Receiver, View, ViewError},
    policy::Policy,
};

/// What is known of an event that a ref names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    PullRequest {
        tip: Oid,
        /// It is meant for the repository pushed to.
        belongs: bool,
    },
    OtherKind(Kind),
}

/// The events that the refs of a push to `repository` name, as far as they are served or held.
pub(crate) fn known_events(
    commands: &[RefEdit],
    repository: &RepoAddr,
    view: &dyn View,
    policy: &Policy,
) -> Result<BTreeMap<EventId, Known>, ViewError> {
    let mut known = BTreeMap::new();
    let mut ids = commands.iter().filter_map(event_id).peekable();
    if ids.peek().is_none() {
        return Ok(known);
    }
    let receiver = Receiver::load(repository, view, policy)?;
    for id in ids {
        let event = match view.served_event(&id)? {
            Some(event) => Some(event),
            None => view.held_event(&id)?,
        };
        if let Some(event) = event {
            known.insert(id, known_event(&event, &receiver, view, policy)?);
        }
    }
    Ok(known)
}

/// What `event` says of a push to `receiver`.
fn known_event(
    event: &Event,
    receiver: &Receiver<'_>,
    view: &dyn View,
    policy: &Policy,
) -> Result<Known, ViewError> {
    match PullRequest::parse(event.clone()) {
        Ok(request) => Ok(Known::PullRequest {
            tip: request.tip,
            belongs: receiver.takes(&request, view, policy)?,
        }),
        Err(_) => Ok(Known::OtherKind(event.kind)),
    }
}

/// A tip that may be set.
pub(super) enum Tip {
    Known(EventId, Oid),
    /// The event is not known yet: git first is the normal order (G01-43).
    Placeholder(EventId, Oid),
}

pub(super) fn judge(
    command: &RefEdit,
    known: &BTreeMap<EventId, Known>,
    current: &Refs,
    is_contributor: bool,
) -> Result<Tip, String> {
    let name = &command.name;
    if is_contributor && event_id(command).is_none() {
        return Err(format!(
            "GRASP-06: only pushes to refs/nostr/<event-id> are accepted ({name})"
        ));
    }
    if !name.is_under_nostr() {
        return Err(format!(
            "{name} is outside refs/heads, refs/tags and refs/nostr, which is all this server keeps"
        ));
    }
    let Some(id) = event_id(command) else {
        return Err(format!(
            "{name} does not name an event: refs/nostr/ takes 64 lower-case hex digits"
        ));
    };
    let Some(new) = command.new else {
        return Err(format!(
            "{name} cannot be deleted by a push; delete the pull request event (kind 5) instead"
        ));
    };
    match known.get(&id) {
        // First come: who pushes a tip must find it when his event arrives. An event that names
        // another tip ends this one at once (G01-48).
        None => match current.refs.get(name) {
            Some(tip) if *tip != new => Err(format!(
                "{name} waits for its event with the tip {} already; publish the event first, then \
                 push {}",
                tip.short(),
                new.short()
            )),
            _ => Ok(Tip::Placeholder(id, new)),
        },
        Some(Known::OtherKind(kind)) => Err(format!(
            "the event that {name} names is of kind {}, no pull request",
            kind.as_u16()
        )),
        Some(Known::PullRequest { belongs: false, .. }) => Err(format!(
            "the pull request that {name} names is for another repository"
        )),
        Some(Known::PullRequest { tip, .. }) if *tip != new => Err(format!(
            "the pull request that {name} names has its tip at {}, not {}",
            tip.short(),
            new.short()
        )),
        Some(Known::PullRequest { .. }) => Ok(Tip::Known(id, new)),
    }
}

fn event_id(command: &RefEdit) -> Option<EventId> {
    let id = command.name.nostr_event_id()?;
    Some(EventId::from_slice(&id).expect("32 bytes"))
}
