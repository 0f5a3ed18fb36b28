//! States: several per identifier, of several authors and of one.

use grip_nostr::{Event, EventId, RepoAddr, State};
use grip_types::{Identifier, Origin};

use super::{Home, Purgatory, promoted};
use crate::{Change, Full, Held, Millis, Provenance, StateEntry, journal::Class};

impl Purgatory {
    /// Holds a state and sees to it that its data is looked for; older versions are not wanted any
    /// more.
    ///
    /// One that is held already begins no new time, nor does a wanted one that comes by sync.
    pub fn add_state(
        &mut self,
        event: Event,
        identifier: Identifier,
        from: impl Into<Provenance>,
        now: Millis,
    ) -> Result<Vec<Change>, Full> {
        let (id, from) = (event.id, from.into());
        let origin = from.source.origin;
        if self.ids.contains_key(&id) {
            return Ok(self.promote_state(&identifier, &id, origin, now));
        }
        if self.is_wanted_already(&id, origin) {
            return Ok(Vec::new());
        }
        let held = Held::new(&event, origin, now, now + self.bounds.lifetime);
        let entry = self.admit_from(&from, |family| StateEntry {
            identifier: identifier.clone(),
            held: held.clone().charged_to(family, from.source.network),
        })?;
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

    /// Removes one state, held or wanted.
    pub fn remove_state_event(&mut self, identifier: &Identifier, id: &EventId) -> Vec<Change> {
        let Some(entry) = self.take_state(identifier, id) else {
            let wanted = self.wanted.get(id);
            if wanted.is_some_and(|entry| entry.identifiers.contains(identifier)) {
                return self.remove_wanted(id);
            }
            return Vec::new();
        };
        self.count_out(&entry);
        let mut changes = vec![Change::remove(Class::State, id)];
        changes.extend(self.end_idle_search(identifier));
        changes
    }

    /// Removes a state that is served from now on, held or wanted, with the versions it overtakes and
    /// the announcements that are served with it.
    pub fn remove_served_state<'a>(
        &mut self,
        identifier: &Identifier,
        state: &Event,
        overtaken: &[EventId],
        announcements: impl IntoIterator<Item = &'a RepoAddr>,
    ) -> Vec<Change> {
        let mut changes = self.remove_state_event(identifier, &state.id);
        changes.extend(self.remove_superseded(identifier, state));
        for id in overtaken {
            changes.extend(self.remove_state_event(identifier, id));
        }
        for addr in announcements {
            changes.extend(self.remove_announcement(addr));
        }
        changes
    }

    /// Ends the time of a state. If it names objects, all of which can be here, and is the latest of
    /// its author, it is wanted from now on.
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
        let mut changes = vec![Change::remove(Class::State, id)];
        changes.extend(self.remember(*id, Some(held.origin), now));
        let event = held.event.unpack();
        let names_objects = State::parse(event.clone())
            .is_ok_and(|state| state.is_satisfiable() && !state.refs.is_empty());
        if names_objects && !self.has_newer(identifier, &held.event) {
            changes.extend(self.remove_superseded(identifier, &event));
            changes.extend(self.want(vec![identifier.clone()], held, now));
        }
        changes.extend(self.end_idle_search(identifier));
        changes
    }

    pub(super) fn extend_state(
        &mut self,
        identifier: &Identifier,
        id: &EventId,
        until: Millis,
    ) -> Option<Change> {
        let held = &self.state(identifier, id)?.held;
        let until = until.min(self.latest_end(held));
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
