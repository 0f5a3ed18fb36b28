//! The ref edits that bring a repository to its effective state (G01-37 … G01-39).

use std::collections::BTreeMap;

use grip_nostr::State;
use grip_types::{Oid, RefEdit, RefName};

use super::Refs;

/// The changes that align a repository, to be made in one transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alignment {
    pub(crate) edits: Vec<RefEdit>,
    /// Where HEAD goes, if it moves.
    pub(crate) head: Option<RefName>,
}

impl Alignment {
    /// Says whether the repository is aligned already.
    pub(crate) fn is_empty(&self) -> bool {
        self.edits.is_empty() && self.head.is_none()
    }
}

/// Sets what `state` names and deletes the branches and tags it does not; `refs/nostr/*` is never
/// pending_repacks. To be used only once every object the state names is here.
pub(crate) fn alignment(state: &State, current: &Refs) -> Alignment {
    let gone = current
        .refs
        .iter()
        .filter(|(name, _)| name.is_state_ref() && !state.refs.contains_key(*name))
        .map(|(name, old)| RefEdit {
            name: name.clone(),
            old: Some(*old),
            new: None,
        });
    let set = state.refs.iter().filter_map(|(name, new)| {
        let old = current.refs.get(name).copied();
        (old != Some(*new)).then(|| RefEdit {
            name: name.clone(),
            old,
            new: Some(*new),
        })
    });
    Alignment {
        edits: gone.chain(set).collect(),
        head: head_after(state, &state.refs, current.head.as_ref()),
    }
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
    let said = state.head.as_ref().filter(arrived);
    let kept = || current.filter(|head| after.contains_key(*head));
    let target = said.or_else(kept).or_else(|| fallback(after))?;
    (current != Some(target)).then(|| target.clone())
}

fn fallback(after: &BTreeMap<RefName, Oid>) -> Option<&RefName> {
    let named = |name: &str| after.get_key_value(name).map(|(name, _)| name);
    named("refs/heads/main")
        .or_else(|| named("refs/heads/master"))
        .or_else(|| after.keys().find(|name| name.is_head()))
}
