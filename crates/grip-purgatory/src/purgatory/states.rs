//! States: several per identifier, of several authors and of one.

use grip_nostr::{Event, EventId, RepoAddr, State};
use grip_types::{Identifier, Origin};

use super::{Expired, Home, Purgatory, promoted};
use crate::{
    Change, CompactEvent, Family, Full, Held, Millis, PrEntry, Provenance, StateEntry, Which,
    journal::Class,
};

/// An entry that is not counted for a moment.
enum Unfiled {
    Pr(PrEntry),
    State(StateEntry),
}

impl Unfiled {
    fn held(&self) -> &Held {
        match self {
            Self::Pr(entry) => &entry.held,
            Self::State(entry) => &entry.held,
        }
    }
}

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
        let entry = self.admit_from(&from, self.state_entry(&event, &identifier, &from, now))?;
        let mut changes = vec![Change::put_state(&entry)];
        self.insert_state(entry);
        changes.extend(self.remove_wanted(&id));
        changes.extend(self.remove_superseded(&identifier, &event));
        changes.extend(self.unremember(&id));
        changes.extend(self.enqueue_for(&identifier, origin, now));
        Ok(changes)
    }

    /// Ends the time of what its own author holds as far as a state has no room because of it: of pull
    /// requests, the first to come first, then of earlier states of the same name. Where that makes no room
    /// nothing ends.
    ///
    /// Anybody may send again what an author has signed, so what is held of him does not say that he sent it:
    /// without this, others would decide what his newest state finds room beside.
    pub fn give_way_to_state(
        &mut self,
        event: &Event,
        identifier: &Identifier,
        from: impl Into<Provenance>,
        now: Millis,
    ) -> (Vec<Expired>, Vec<Change>) {
        let from = from.into();
        let entry = self.state_entry(event, identifier, &from, now);
        let (requests, states) = self.own(event, identifier, &from);
        let (mut requests, mut states) = (requests.into_iter(), states.into_iter());
        let mut taken = Vec::new();
        let fits = loop {
            let next = match self.place(&from, &entry) {
                Ok(_) => break true,
                Err(full) => match full.which {
                    Which::Author | Which::AuthorBytes => requests.next().or_else(|| states.next()),
                    Which::Identifier | Which::IdentifierBytes => states.next(),
                    _ => None,
                },
            };
            let Some(id) = next else {
                break false;
            };
            taken.extend(self.unfile(identifier, &id));
        };
        let ids: Vec<EventId> = taken.iter().map(|taken| taken.held().id()).collect();
        for taken in taken {
            self.file_again(taken);
        }
        let (mut expired, mut changes) = (Vec::new(), Vec::new());
        for id in ids.into_iter().filter(|_| fits) {
            self.expire_event(id, now, &mut expired, &mut changes);
        }
        (expired, changes)
    }

    /// What the author of a state holds in the same pool: pull requests, and earlier states of the same
    /// name, each by its age.
    fn own(
        &self,
        event: &Event,
        identifier: &Identifier,
        from: &Provenance,
    ) -> (Vec<EventId>, Vec<EventId>) {
        let is_granted = from.families.iter().any(|family| family.granted);
        let is_own =
            |held: &&Held| held.author() == event.pubkey && held.is_granted() == is_granted;
        let requests = self.prs.values().map(|entry| &entry.held).filter(is_own);
        let mut requests: Vec<&Held> = requests.collect();
        requests.sort_by_key(|held| held.added_at);
        let new = CompactEvent::new(event);
        let states = self.find_state(identifier).iter().map(|entry| &entry.held);
        let states = states.filter(|held| is_own(held) && new.supersedes(&held.event));
        let requests = requests.into_iter().map(Held::id).collect();
        (requests, states.map(Held::id).collect())
    }

    fn unfile(&mut self, identifier: &Identifier, id: &EventId) -> Option<Unfiled> {
        if let Some(entry) = self.unfile_pr(id) {
            return Some(Unfiled::Pr(entry));
        }
        let entry = self.take_state(identifier, id)?;
        self.count_out(&entry);
        Some(Unfiled::State(entry))
    }

    fn file_again(&mut self, entry: Unfiled) {
        match entry {
            Unfiled::Pr(entry) => {
                self.count_in(&entry);
                self.insert_pr(entry);
            }
            Unfiled::State(entry) => {
                self.count_in(&entry);
                self.insert_state(entry);
            }
        }
    }

    /// A state as it is held in the room of a family.
    fn state_entry(
        &self,
        event: &Event,
        identifier: &Identifier,
        from: &Provenance,
        now: Millis,
    ) -> impl Fn(Option<Family>) -> StateEntry + use<> {
        let held = Held::new(event, from.source.origin, now, now + self.bounds.lifetime);
        let (identifier, network) = (identifier.clone(), from.source.network);
        move |family| StateEntry {
            identifier: identifier.clone(),
            held: held.clone().charged_to(family, network),
        }
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
