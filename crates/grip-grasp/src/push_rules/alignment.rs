//! The ref edits that bring a repository to its effective state (G01-37 … G01-39).

use std::collections::{BTreeMap, BTreeSet};

use grip_nostr::State;
use grip_types::{Oid, RefEdit, RefName};

use super::Refs;

/// Changes of branches, tags and HEAD, to be made in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alignment {
    pub(crate) edits: Vec<RefEdit>,
    /// Where HEAD goes, if it moves.
    pub(crate) head: Option<RefName>,
}

impl Alignment {
    /// Says whether the repository is as it has to be.
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.head.is_none()
    }
}

/// Sets what `state` names and deletes the branches and tags it does not; `refs/nostr/*` is never
/// touched. To be used only once every object the state names is here.
pub(crate) fn alignment(state: &State, current: &Refs) -> Alignment {
    settlement(Some(state), &[], current)
}

/// Brings every branch and tag to what the effective state says, but those that a push has moved to
/// what a `held` state says: its other refs are still on their way. Without an effective state
/// nothing else stays.
pub(crate) fn settlement(effective: Option<&State>, held: &[State], current: &Refs) -> Alignment {
    let says = |state: &State, name: &RefName| state.refs.get(name).copied();
    let there = current.refs.keys().filter(|name| name.is_state_ref());
    let named = effective.into_iter().flat_map(|state| state.refs.keys());
    let names: BTreeSet<&RefName> = there.chain(named).collect();
    let (mut after, mut gone, mut set) = (BTreeMap::new(), Vec::new(), Vec::new());
    for name in names {
        let old = current.refs.get(name).copied();
        let is_pushed = held.iter().any(|state| says(state, name) == old);
        let new = if is_pushed {
            old
        } else {
            effective.and_then(|state| says(state, name))
        };
        after.extend(new.map(|new| (name.clone(), new)));
        if old != new {
            let name = name.clone();
            let edits = if new.is_some() { &mut set } else { &mut gone };
            edits.push(RefEdit { name, old, new });
        }
    }
    gone.extend(set);
    let is_pushed = |head: &&RefName| {
        let mut said = held
            .iter()
            .filter(|state| state.head.as_ref() == Some(*head));
        said.any(|state| {
            after.contains_key(*head) && says(state, head) == after.get(*head).copied()
        })
    };
    let head = match (current.head.as_ref().filter(is_pushed), effective) {
        (Some(_), _) => None,
        (None, Some(state)) => head_after(state, &after, current.head.as_ref()),
        (None, None) => head_among(&after, current.head.as_ref()),
    };
    Alignment { edits: gone, head }
}

/// Where HEAD has to go once the refs are as `after` says; none if it stays.
///
/// The state's HEAD counts as soon as its branch is there. Without it HEAD stays, unless its
/// branch is gone: then `main`, `master`, or the first branch.
pub(super) fn head_after(
    state: &State,
    after: &BTreeMap<RefName, Oid>,
    current: Option<&RefName>,
) -> Option<RefName> {
    let arrived = |head: &&RefName| after.get(*head) == state.refs.get(*head);
    match state.head.as_ref().filter(arrived) {
        Some(said) => (current != Some(said)).then(|| said.clone()),
        None => head_among(after, current),
    }
}

fn head_among(after: &BTreeMap<RefName, Oid>, current: Option<&RefName>) -> Option<RefName> {
    let kept = current.filter(|head| after.contains_key(*head));
    let target = kept.or_else(|| fallback(after))?;
    (current != Some(target)).then(|| target.clone())
}

fn fallback(after: &BTreeMap<RefName, Oid>) -> Option<&RefName> {
    let named = |name: &str| after.get_key_value(name).map(|(name, _)| name);
    named("refs/heads/main")
        .or_else(|| named("refs/heads/master"))
        .or_else(|| after.keys().find(|name| name.is_head()))
}
