//! Authorisation of pushes: branches and tags by a signed state (§5), `refs/nostr/*` by pull request
//! events (§5b).
//!
//! Invariant: pure, and whole pushes only: every command is allowed or none is carried out.

mod alignment;
mod matching_states;
mod nostr_refs;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use grip_nostr::{EventId, State};
use grip_types::{Oid, RefEdit, RefName};

pub(crate) use alignment::{Alignment, alignment, settlement};
pub(crate) use matching_states::Candidates;
pub(crate) use nostr_refs::{Known, known_events};

use alignment::head_after;

/// The refs of a repository at the moment of the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refs {
    pub(crate) refs: BTreeMap<RefName, Oid>,
    /// The branch HEAD names, there or not.
    pub(crate) head: Option<RefName>,
}

impl Refs {
    /// Says whether `refs/nostr/<event>` is at `tip`.
    pub(crate) fn has_tip(&self, event: &EventId, tip: &Oid) -> bool {
        let name = RefName::for_nostr_event(event.as_bytes());
        self.refs.get(&name) == Some(tip)
    }
}

/// A push that may be carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Authorised {
    /// The state that allows the branches and tags; none if the push has neither.
    pub(crate) by: Option<EventId>,
    /// To be made in one transaction; refs that are already as asked are left out.
    pub(crate) edits: Vec<RefEdit>,
    /// Where HEAD goes, if it moves (G01-37).
    pub(crate) head: Option<RefName>,
    /// Tips pushed for events that are not known yet.
    pub(crate) placeholders: Vec<(EventId, Oid)>,
    /// Tips pushed for known events, equal to their `c`.
    pub(crate) pull_requests: Vec<(EventId, Oid)>,
}

/// Decides about a push as a whole. `known` has the events among those of [`event_ids`] that are
/// served or held.
pub(crate) fn authorise(
    commands: &[RefEdit],
    candidates: &Candidates,
    current: &Refs,
    known: &BTreeMap<EventId, Known>,
) -> Result<Authorised, PushRefusal> {
    let mut faults = BTreeMap::new();
    let mut authorised = Authorised::default();
    let mut seen = BTreeSet::new();
    for command in commands {
        let fault = if seen.insert(&command.name) {
            namespace_fault(command, known, current, &mut authorised)
                .or_else(|| stale(command, current))
        } else {
            Some(format!("{} is named twice in one push", command.name))
        };
        if let Some(fault) = fault {
            faults.insert(command.name.clone(), fault);
        }
    }
    let state_commands: Vec<&RefEdit> = commands
        .iter()
        .filter(|command| command.name.is_state_ref())
        .collect();
    let state = candidates.choose(&state_commands);
    if let Err(problems) = &state {
        for (name, problem) in problems {
            faults
                .entry(name.clone())
                .or_insert_with(|| problem.clone());
        }
    }
    match state {
        Ok(state) if faults.is_empty() => {
            plan(commands, state, current, &mut authorised);
            Ok(authorised)
        }
        _ => Err(PushRefusal::new(commands, &faults)),
    }
}

/// Decides about a push to a contributor repository as a whole: `refs/nostr/<event-id>` and nothing
/// else (G06-4, G06-8).
pub(crate) fn authorise_contributor(
    commands: &[RefEdit],
    current: &Refs,
    known: &BTreeMap<EventId, Known>,
) -> Result<Authorised, PushRefusal> {
    let mut faults = BTreeMap::new();
    let mut authorised = Authorised::default();
    let mut seen = BTreeSet::new();
    for command in commands {
        let judged = if seen.insert(&command.name) {
            nostr_refs::judge(command, known, current, true)
        } else {
            Err(format!("{} is named twice in one push", command.name))
        };
        match judged {
            Ok(nostr_refs::Tip::Known(id, tip)) => authorised.pull_requests.push((id, tip)),
            Ok(nostr_refs::Tip::Placeholder(id, tip)) => authorised.placeholders.push((id, tip)),
            Err(fault) => drop(faults.insert(command.name.clone(), fault)),
        }
    }
    if !faults.is_empty() {
        return Err(PushRefusal::new(commands, &faults));
    }
    plan(commands, None, current, &mut authorised);
    Ok(authorised)
}

/// What speaks against a command by its name alone; notes the events that `refs/nostr/*` name.
fn namespace_fault(
    command: &RefEdit,
    known: &BTreeMap<EventId, Known>,
    current: &Refs,
    authorised: &mut Authorised,
) -> Option<String> {
    if command.name.is_state_ref() {
        return None;
    }
    match nostr_refs::judge(command, known, current, false) {
        Ok(nostr_refs::Tip::Known(id, tip)) => authorised.pull_requests.push((id, tip)),
        Ok(nostr_refs::Tip::Placeholder(id, tip)) => authorised.placeholders.push((id, tip)),
        Err(fault) => return Some(fault),
    }
    None
}

/// A ref that moved since the client looked, unless it is already as the client wants it. Clients are
/// not shown `refs/nostr/*` before a push, and it is the event alone that decides about these.
fn stale(command: &RefEdit, current: &Refs) -> Option<String> {
    if command.name.is_under_nostr() {
        return None;
    }
    let now = current.refs.get(&command.name).copied();
    if now == command.new || now == command.old {
        return None;
    }
    let now = now.map_or_else(|| "gone".to_owned(), |oid| format!("at {}", oid.short()));
    Some(format!(
        "{} is {now} by now; fetch first, then push again",
        command.name
    ))
}

fn plan(commands: &[RefEdit], state: Option<&State>, current: &Refs, authorised: &mut Authorised) {
    let mut after = current.refs.clone();
    let mut change = |name: &RefName, new: Option<Oid>| {
        let old = match new {
            Some(new) => after.insert(name.clone(), new),
            None => after.remove(name),
        };
        if old != new {
            let name = name.clone();
            authorised.edits.push(RefEdit { name, old, new });
        }
    };
    for command in commands {
        change(&command.name, command.new);
    }
    for name in in_the_way(commands, current) {
        change(&name, None);
    }
    if let Some(state) = state {
        authorised.by = Some(state.event.id);
        authorised.head = head_after(state, &after, current.head.as_ref());
    }
}

/// Branches and tags that git cannot have beside the pushed ones (`a` beside `a/b`). The state
/// that allows the push cannot name them, so they are to go anyway.
fn in_the_way(commands: &[RefEdit], current: &Refs) -> BTreeSet<RefName> {
    let mut found = BTreeSet::new();
    let set = |command: &&RefEdit| command.new.is_some() && command.name.is_state_ref();
    for name in commands.iter().filter(set).map(|command| &command.name) {
        for (slash, _) in name.as_str().match_indices('/').skip(2) {
            if let Some((parent, _)) = current.refs.get_key_value(&name.as_str()[..slash]) {
                found.insert(parent.clone());
            }
        }
        let directory = format!("{name}/");
        let from = (Bound::Included(directory.as_str()), Bound::Unbounded);
        let below = current.refs.range::<str, _>(from);
        let below = below.take_while(|(child, _)| child.as_str().starts_with(&directory));
        found.extend(below.map(|(child, _)| child.clone()));
    }
    found
}

/// A push of which nothing is carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{summary}")]
pub(crate) struct PushRefusal {
    /// One line for a person.
    pub(crate) summary: String,
    /// Every ref of the push, once, in its order.
    pub(crate) refs: Vec<RefRefusal>,
}

/// The answer for one ref of a refused push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefRefusal {
    pub(crate) name: RefName,
    pub(crate) reason: String,
}

impl PushRefusal {
    fn new(commands: &[RefEdit], faults: &BTreeMap<RefName, String>) -> Self {
        let mut at_fault = commands
            .iter()
            .filter_map(|c| faults.get_key_value(&c.name));
        let (culprit, summary) = at_fault
            .next()
            .map_or((None, String::new()), |(name, fault)| {
                (Some(name), fault.clone())
            });
        let whole = culprit.map_or_else(String::new, |name| {
            format!("the push is taken whole or not at all, and {name} was refused")
        });
        let mut refs: Vec<RefRefusal> = Vec::new();
        let mut seen = BTreeSet::new();
        for command in commands.iter().filter(|c| seen.insert(&c.name)) {
            let reason = faults.get(&command.name).unwrap_or(&whole);
            refs.push(RefRefusal {
                name: command.name.clone(),
                reason: reason.clone(),
            });
        }
        Self { summary, refs }
    }

    /// Has another reason for branches and tags; what git shows of one is short.
    pub(crate) fn because(&mut self, text: &str) {
        let state_refs = self.refs.iter_mut().filter(|of| of.name.is_state_ref());
        for refusal in state_refs {
            refusal.reason = text.to_owned();
        }
        self.summary = text.to_owned();
    }
}
