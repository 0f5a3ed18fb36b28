//! The states that a push to one repository may rest on, matched at the time of the push.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashSet},
};

use grip_nostr::{EventId, MaintainerSet, State, Timestamp};
use grip_types::{RefEdit, RefName};

use crate::admission::effective_state;

/// The states a push to one repository may rest on, newest first: those held, and the effective
/// served one; none older than that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    states: Vec<State>,
    /// Held ones that another of their author and second is ahead of: no push may rest on them.
    tied: Vec<State>,
}

impl Candidates {
    /// Takes those of `served` and `held` that `set` makes count.
    pub(crate) fn new(set: &MaintainerSet, served: Vec<State>, held: Vec<State>) -> Self {
        let effective = effective_state(set, &served).cloned();
        let since = effective.as_ref().map(rank);
        let mut held: Vec<State> = held
            .into_iter()
            .filter(|state| set.contains(&state.event.pubkey) && state.is_satisfiable())
            .filter(|state| since.is_none_or(|since| rank(state) > since))
            .collect();
        held.sort_by_key(|state| Reverse(rank(state)));
        let mut seconds = HashSet::new();
        let is_first = |state: &State| seconds.insert((state.event.pubkey, state.event.created_at));
        let (mut states, tied): (Vec<_>, Vec<_>) = held.into_iter().partition(is_first);
        states.extend(effective);
        Self { states, tied }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &State> {
        self.states.iter()
    }

    /// The newest state that accepts all of `commands`; none is needed where there are none.
    pub(super) fn choose(
        &self,
        commands: &[&RefEdit],
    ) -> Result<Option<&State>, BTreeMap<RefName, String>> {
        if commands.is_empty() {
            return Ok(None);
        }
        if let Some(state) = self.find_matching_states(commands).next() {
            return Ok(Some(state));
        }
        let mut tied = self.tied.iter();
        Err(match tied.find(|state| allows(state, commands)) {
            Some(tied) => {
                let names = commands.iter().map(|command| command.name.clone());
                names.map(|name| (name, tie(tied))).collect()
            }
            None => self.problems(commands),
        })
    }

    /// The states that accept all of `commands`, newest first.
    fn find_matching_states(&self, commands: &[&RefEdit]) -> impl Iterator<Item = &State> {
        let states = self.states.iter();
        states.filter(move |state| allows(state, commands))
    }

    /// What the newest state has against each command.
    fn problems(&self, commands: &[&RefEdit]) -> BTreeMap<RefName, String> {
        let newest = self.states.first();
        let problems = commands.iter().filter_map(|command| match newest {
            None => Some((command.name.clone(), unallowed(command))),
            Some(state) if !can_satisfy_state(state, command) => {
                Some((command.name.clone(), contradiction(state, command)))
            }
            Some(_) => None,
        });
        problems.collect()
    }
}

/// NIP-01's order: the later one, and of two of the same second the lowest id.
fn rank(state: &State) -> (Timestamp, Reverse<EventId>) {
    (state.event.created_at, Reverse(state.event.id))
}

/// Says whether the command leaves its ref as the state has it.
pub(super) fn can_satisfy_state(state: &State, command: &RefEdit) -> bool {
    state.refs.get(&command.name).copied() == command.new
}

fn allows(state: &State, commands: &[&RefEdit]) -> bool {
    commands.iter().all(|edit| can_satisfy_state(state, edit))
}

fn tie(state: &State) -> String {
    format!(
        "the state that allows it ({}) was signed in the same second as another of its author, \
         whose lower id counts; publish it again with a later created_at",
        &state.event.id.to_hex()[..8]
    )
}

fn unallowed(command: &RefEdit) -> String {
    let name = &command.name;
    match command.new {
        Some(new) => format!(
            "no state event from a maintainer allows {name} at {}; publish the state first",
            new.short()
        ),
        None => format!(
            "no state event from a maintainer allows deleting {name}; publish the state first"
        ),
    }
}

fn contradiction(state: &State, command: &RefEdit) -> String {
    let name = &command.name;
    let state_id = &state.event.id.to_hex()[..8];
    match (state.refs.get(name), command.new) {
        (Some(said), Some(new)) => format!(
            "the newest state ({state_id}) has {name} at {}, not {}; publish a new state first",
            said.short(),
            new.short()
        ),
        (Some(_), None) => format!(
            "the newest state ({state_id}) still names {name}; publish a state without it first"
        ),
        (None, _) => format!(
            "the newest state ({state_id}) does not name {name}; publish a state that does first"
        ),
    }
}
