//! States: several per identifier, of several authors and of one.

use std::collections::BTreeMap;

use grip_nostr::{Event, EventId};
use grip_types::{Identifier, Oid, Origin, RefName};

use super::{Home, Purgatory, promoted};
use crate::{
    Change, Full, Held, Millis, RefUpdate, StateEntry, can_be_here, extract_refs_from_state,
    matching::Push,
};

impl Purgatory {
    /// Holds a state and sees to it that its data is looked for; older versions are not wanted any
    /// more.
    ///
    /// One that is held already begins no new time, nor does a wanted one that comes by sync.
    pub fn add_state(
        &mut self,
        event: Event,
        identifier: Identifier,
        origin: Origin,
        now: Millis,
    ) -> Result<Vec<Change>, Full> {
        let id = event.id;
        if self.ids.contains_key(&id) {
            return Ok(self.promote_state(&identifier, &id, origin, now));
        }
        if self.is_wanted_already(&id, origin) {
            return Ok(Vec::new());
        }
        let entry = StateEntry {
            identifier,
            held: Held::new(&event, origin, now, now + self.bounds.lifetime),
        };
        self.admit(&entry)?;
        let identifier = entry.identifier.clone();
        let mut changes = vec![Change::put_state(&entry)];
        self.insert_state(entry);
        changes.extend(self.remove_wanted(&id));
        changes.extend(self.remove_superseded(&identifier, &event));
        changes.extend(self.unremember(&id));
        changes.extend(self.enqueue_for(&identifier, origin, now));
        Ok(changes)
    }

    /// The states that wait for an identifier, oldest first.
    pub fn find_state(&self, identifier: &Identifier) -> &[StateEntry] {
        self.states.get(identifier).map_or(&[], Vec::as_slice)
    }

    /// The states that a push to a repository with `local_refs` makes true, oldest first.
    pub fn find_matching_states(
        &self,
        identifier: &Identifier,
        pushed: &[RefUpdate],
        local_refs: &BTreeMap<RefName, Oid>,
    ) -> Vec<&StateEntry> {
        let states = self.find_state(identifier);
        if states.is_empty() {
            return Vec::new();
        }
        let push = Push::new(pushed, local_refs);
        let satisfied = |state: &&StateEntry| push.satisfies(&state.held.event.unpack());
        states.iter().filter(satisfied).collect()
    }

    /// Removes all states of an identifier.
    pub fn remove_state(&mut self, identifier: &Identifier) -> Vec<Change> {
        let states = self.find_state(identifier).iter();
        let ids: Vec<EventId> = states.map(|state| state.held.id()).collect();
        let removals = ids.iter().map(|id| self.remove_state_event(identifier, id));
        removals.collect::<Vec<_>>().concat()
    }

    /// Removes one state, held or wanted.
    pub fn remove_state_event(&mut self, identifier: &Identifier, id: &EventId) -> Vec<Change> {
        let Some(entry) = self.take_state(identifier, id) else {
            let wanted = self.wanted.get(id);
            return match wanted.is_some_and(|entry| entry.identifiers.contains(identifier)) {
                true => self.remove_wanted(id),
                false => Vec::new(),
            };
        };
        self.count_out(&entry);
        let mut changes = vec![Change::remove_state(id)];
        changes.extend(self.settle_unheld(identifier));
        changes
    }

    /// Ends the time of a state. If it names objects that can be here and is the latest of its
    /// author, it is wanted from now on.
    pub(super) fn expire_state(
        &mut self,
        identifier: &Identifier,
        id: &EventId,
        now: Millis,
    ) -> Vec<Change> {
        let Some(entry) = self.take_state(identifier, id) else {
            return Vec::new();
        };
        self.count_out(&entry);
        let held = entry.held;
        let mut changes = vec![Change::remove_state(id)];
        changes.extend(self.remember(*id, Some(held.origin), now));
        let event = held.event.unpack();
        let refs = extract_refs_from_state(&event);
        let can_be_here = refs.iter().all(|pair| can_be_here(&pair.object));
        if !refs.is_empty() && can_be_here && !self.has_newer(identifier, &held.event) {
            changes.extend(self.remove_superseded(identifier, &event));
            changes.extend(self.want(vec![identifier.clone()], held, now));
        }
        changes.extend(self.settle_unheld(identifier));
        changes
    }

    pub(super) fn extend_state(
        &mut self,
        identifier: &Identifier,
        id: &EventId,
        until: Millis,
    ) -> Option<Change> {
        let held = &self.state(identifier, id)?.held;
        let longer = (held.expires_at < until).then(|| Held {
            expires_at: until,
            ..held.clone()
        })?;
        Some(self.replace_state(identifier, longer))
    }

    fn promote_state(
        &mut self,
        identifier: &Identifier,
        id: &EventId,
        origin: Origin,
        now: Millis,
    ) -> Vec<Change> {
        let held = self.state(identifier, id).map(|state| &state.held);
        let Some(held) = held.and_then(|held| promoted(held, origin)) else {
            return Vec::new();
        };
        let mut changes = vec![self.replace_state(identifier, held)];
        changes.extend(self.enqueue_for(identifier, origin, now));
        changes
    }

    pub(super) fn state(&self, identifier: &Identifier, id: &EventId) -> Option<&StateEntry> {
        let states = self.find_state(identifier);
        states.iter().find(|state| state.held.id() == *id)
    }

    /// Puts `held` in the place of its former version.
    pub(super) fn replace_state(&mut self, identifier: &Identifier, held: Held) -> Change {
        if let Some(before) = self.take_state(identifier, &held.id()) {
            self.count_out(&before);
        }
        let entry = StateEntry {
            identifier: identifier.clone(),
            held,
        };
        self.count_in(&entry);
        let change = Change::put_state(&entry);
        self.insert_state(entry);
        change
    }

    /// Files an entry that has been counted in.
    pub(super) fn insert_state(&mut self, entry: StateEntry) {
        let home = Home::State(entry.identifier.clone());
        self.ids.insert(entry.held.id(), home);
        let states = self.states.entry(entry.identifier.clone()).or_default();
        let older = |state: &StateEntry| entry.held.event.supersedes(&state.held.event);
        let place = states.partition_point(older);
        // One is the rule.
        states.reserve_exact(1);
        states.insert(place, entry);
    }

    fn take_state(&mut self, identifier: &Identifier, id: &EventId) -> Option<StateEntry> {
        let states = self.states.get_mut(identifier)?;
        let place = states.iter().position(|state| state.held.id() == *id)?;
        let entry = states.remove(place);
        if states.is_empty() {
            self.states.remove(identifier);
        }
        self.ids.remove(id);
        Some(entry)
    }
}
