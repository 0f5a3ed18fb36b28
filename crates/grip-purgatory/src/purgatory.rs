//! The purgatory as a whole.

mod announcements;
mod expiry;
mod prs;
mod restore;
mod states;
mod sync;
mod undo;
mod wanted;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use grip_nostr::{EventId, PublicKey, RepoAddr};
use grip_types::{Identifier, Origin};

pub use announcements::MadeRoom;
pub use expiry::Expired;
pub use restore::Restored;
pub use undo::Before;

use crate::{
    AnnouncementEntry, Bounds, Change, Family, Full, Held, MAX_LIFETIMES, Millis, Phase,
    Placeholder, PrEntry, Provenance, StateEntry, WantedEntry,
    bounds::{FamilyCount, Usage, Weight},
    entry::{Entry, Indexed, count_family},
    expired_ids::ExpiredIds,
    journal::Class,
    schedule::Schedule,
    sync_queue::SyncQueue,
    wanted::Wanted,
};

/// Holds what waits for its other half. Bounded by [`Bounds`].
///
/// Every verb that changes something returns the journal changes that make it durable, to be
/// written in one transaction before anybody is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purgatory {
    bounds: Bounds,
    announcements: HashMap<Identifier, BTreeMap<PublicKey, AnnouncementEntry>>,
    /// The hidden ones by their end and arrival, the one hidden first at the front.
    hidden: BTreeSet<(Millis, Millis, RepoAddr)>,
    /// Oldest first.
    states: HashMap<Identifier, Vec<StateEntry>>,
    prs: HashMap<EventId, PrEntry>,
    prs_by_identifier: HashMap<Identifier, BTreeSet<EventId>>,
    placeholders: HashMap<EventId, Placeholder>,
    /// Every held event.
    ids: HashMap<EventId, Home>,
    usage: Usage,
    schedule: Schedule,
    sync: SyncQueue,
    expired: ExpiredIds,
    wanted: Wanted,
}

/// Where a held event is filed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Home {
    Announcement(Identifier),
    State(Identifier),
    Pr,
}

/// A held event of any class, or a wanted one.
#[derive(Clone, Copy, Debug)]
pub enum Waiting<'a> {
    Announcement(&'a AnnouncementEntry),
    State(&'a StateEntry),
    Pr(&'a PrEntry),
    Wanted(&'a WantedEntry),
}

impl<'a> Waiting<'a> {
    pub fn held(self) -> &'a Held {
        match self {
            Self::Announcement(entry) => &entry.held,
            Self::State(entry) => &entry.held,
            Self::Pr(entry) => &entry.held,
            Self::Wanted(entry) => &entry.held,
        }
    }

    /// The identifiers it concerns.
    pub fn identifiers(self) -> &'a [Identifier] {
        match self {
            Self::Announcement(entry) => std::slice::from_ref(&entry.addr.identifier),
            Self::State(entry) => std::slice::from_ref(&entry.identifier),
            Self::Pr(entry) => &entry.identifiers,
            Self::Wanted(entry) => &entry.identifiers,
        }
    }

    pub fn is_held(self) -> bool {
        !matches!(self, Self::Wanted(_))
    }
}

/// How much is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hidden ones too.
    pub announcements: usize,
    pub hidden_announcements: usize,
    pub states: usize,
    pub prs: usize,
    /// Refs, not event ids.
    pub placeholders: usize,
    pub sync_queue: usize,
    pub expired_ids: usize,
    pub bytes: usize,
    /// Expired events whose data is still looked for.
    pub wanted: usize,
    pub wanted_bytes: usize,
}

impl Purgatory {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            ..Self::default()
        }
    }

    /// Says whether an event of this id is held, hidden announcements included.
    pub fn contains(&self, id: &EventId) -> bool {
        self.ids.contains_key(id)
    }

    /// The held event of this id, hidden announcements included.
    pub fn find_event(&self, id: &EventId) -> Option<Waiting<'_>> {
        match self.ids.get(id)? {
            Home::Announcement(identifier) => {
                let mut entries = self.announcements(identifier);
                let entry = entries.find(|entry| entry.held.id() == *id);
                entry.map(Waiting::Announcement)
            }
            Home::State(identifier) => self.state(identifier, id).map(Waiting::State),
            Home::Pr => self.find_pr(id).map(Waiting::Pr),
        }
    }

    /// As [`Purgatory::find_event`], wanted events included.
    pub fn find_waiting(&self, id: &EventId) -> Option<Waiting<'_>> {
        let wanted = || self.find_wanted(id).map(Waiting::Wanted);
        self.find_event(id).or_else(wanted)
    }

    /// Every held event, then every wanted one, and of each the one that ends first at the front.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting<'_>> {
        let ids = self.schedule.events();
        let held = ids.filter_map(|id| self.find_event(id));
        held.chain(self.wanted.by_deadline().map(Waiting::Wanted))
    }

    /// The states and pull requests that wait for data of an identifier: those held, then those
    /// wanted.
    pub fn waiting_for(&self, identifier: &Identifier) -> impl Iterator<Item = Waiting<'_>> {
        let states = self.find_state(identifier).iter().map(Waiting::State);
        let held = states.chain(self.prs(identifier).map(Waiting::Pr));
        held.chain(self.wanted(identifier).map(Waiting::Wanted))
    }

    /// Gives up a held or wanted event before its time: it is not looked for any more.
    pub fn drop_event(&mut self, id: &EventId, now: Millis) -> Vec<Change> {
        let waiting = self.find_waiting(id);
        let origin = waiting.map(|waiting| waiting.held().origin);
        let mut changes = match waiting {
            Some(Waiting::Announcement(entry)) => self.remove_announcement(&entry.addr.clone()),
            Some(Waiting::State(entry)) => self.remove_state_event(&entry.identifier.clone(), id),
            Some(Waiting::Pr(_)) => self.take_pr(id),
            Some(Waiting::Wanted(_)) | None => self.remove_wanted(id),
        };
        changes.extend(self.remember(*id, origin, now));
        changes
    }

    /// Says whether the event came by sync before and expired without its data (G01-20).
    pub fn was_expired(&self, id: &EventId) -> bool {
        self.expired.contains(id)
    }

    /// Makes sure that what an authorised push to `addr` rests on does not end under it: the states
    /// and pull requests named have at least `duration` left, and the announcement begins its time
    /// again (G01-19).
    pub fn extend_for_push(
        &mut self,
        addr: &RepoAddr,
        event_ids: &[EventId],
        duration: Duration,
        now: Millis,
    ) -> Vec<Change> {
        let mut changes = self.extend_expiry(&addr.identifier, event_ids, duration, now);
        changes.extend(self.restart_announcement_timer(addr, now));
        changes
    }

    /// Makes sure that the states and pull requests named have at least `duration` left.
    ///
    /// Other identifiers' events are left alone, and so is the end an event has set for itself.
    pub fn extend_expiry(
        &mut self,
        identifier: &Identifier,
        event_ids: &[EventId],
        duration: Duration,
        now: Millis,
    ) -> Vec<Change> {
        let until = now + duration;
        let mut changes = Vec::new();
        for id in event_ids {
            match self.ids.get(id) {
                Some(Home::State(held_for)) if held_for == identifier => {
                    changes.extend(self.extend_state(identifier, id, until));
                }
                Some(Home::Pr) => changes.extend(self.extend_pr(identifier, id, until)),
                _ => {}
            }
        }
        changes
    }

    /// The time beyond which no push prolongs an entry.
    fn latest_end(&self, held: &Held) -> Millis {
        held.added_at + self.bounds.lifetime * MAX_LIFETIMES
    }

    pub fn count(&self) -> Counts {
        Counts {
            announcements: self.usage.of_class(Class::Announcement),
            hidden_announcements: self.usage.hidden(),
            states: self.usage.of_class(Class::State),
            prs: self.usage.of_class(Class::Pr),
            placeholders: self.usage.of_class(Class::Placeholder),
            sync_queue: self.sync.len(),
            expired_ids: self.expired.len(),
            bytes: self.usage.bytes(),
            wanted: self.wanted.len(),
            wanted_bytes: self.wanted.bytes(),
        }
    }

    /// How long the entry that waits longest has waited.
    pub fn oldest_age(&self, now: Millis) -> Option<Duration> {
        self.schedule.oldest().map(|added_at| now.since(added_at))
    }

    /// When [`Purgatory::cleanup`] has something to do next.
    pub fn next_deadline(&self) -> Option<Millis> {
        let deadlines = [self.schedule.next_deadline(), self.wanted.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Says whether an event for this identifier waits for git data, held or wanted.
    pub fn has_pending_events(&self, identifier: &Identifier) -> bool {
        self.has_held_events(identifier) || self.wanted.concerns(identifier)
    }

    /// Says whether an event for this identifier is held until its git data arrives.
    pub fn has_held_events(&self, identifier: &Identifier) -> bool {
        self.states.contains_key(identifier) || self.prs_by_identifier.contains_key(identifier)
    }

    /// Every identifier that something is held or wanted for.
    pub fn identifiers(&self) -> impl Iterator<Item = &Identifier> {
        let held = self.announcements.keys().chain(self.states.keys());
        let held = held.chain(self.prs_by_identifier.keys());
        held.chain(self.wanted.identifiers())
    }

    /// Checks the bounds and counts the entry in.
    fn admit(&mut self, entry: &impl Entry) -> Result<(), Full> {
        self.check(entry)?;
        self.count_in(entry);
        Ok(())
    }

    fn check(&self, entry: &impl Entry) -> Result<(), Full> {
        let weight = entry.indexed().weight;
        let family = self.count_of(&weight);
        self.usage.check(&weight, &self.bounds, family)
    }

    /// The entry as it fits into the room of the first of its families that has some, counted in;
    /// else why it fits into none.
    fn admit_from<E: Entry>(
        &mut self,
        from: &Provenance,
        entry: impl Fn(Option<Family>) -> E,
    ) -> Result<E, Full> {
        let placed = self.place(from, entry)?;
        self.count_in(&placed);
        Ok(placed)
    }

    fn place<E: Entry>(
        &self,
        from: &Provenance,
        entry: impl Fn(Option<Family>) -> E,
    ) -> Result<E, Full> {
        if from.families.is_empty() {
            let entry = entry(None);
            return self.check(&entry).map(|()| entry);
        }
        let mut refusal = None;
        for family in &from.families {
            let entry = entry(Some(family.clone()));
            match self.check(&entry) {
                Ok(()) => return Ok(entry),
                Err(full) => refusal = refusal.or(Some(full)),
            }
        }
        Err(refusal.expect("at least one family was asked"))
    }

    /// How many entries take room beside `weight`.
    fn count_of(&self, weight: &Weight) -> FamilyCount {
        let Some(repo) = &weight.family else {
            return FamilyCount::default();
        };
        let identifier = &repo.identifier;
        match weight.class {
            Class::Announcement => {
                let shown = self
                    .announcements(identifier)
                    .filter(|entry| entry.phase == Phase::Shown);
                count_family(shown.map(|entry| &entry.held), weight)
            }
            Class::State => {
                let states = self.find_state(identifier).iter();
                count_family(states.map(|entry| &entry.held), weight)
            }
            Class::Pr => count_family(self.prs(identifier).map(|entry| &entry.held), weight),
            Class::Placeholder => self.usage.placeholders_of(repo, weight.network),
            Class::Sync | Class::Expired | Class::Wanted => FamilyCount::default(),
        }
    }

    fn count_in(&mut self, entry: &impl Entry) {
        let Indexed { key, times, weight } = entry.indexed();
        self.usage.add(&weight);
        self.schedule.insert(key, times);
    }

    fn count_out(&mut self, entry: &impl Entry) {
        let Indexed { key, times, weight } = entry.indexed();
        self.usage.remove(&weight);
        self.schedule.remove(key, times);
    }

    /// Ends the search for data when nothing waits for it.
    fn end_idle_search(&mut self, identifier: &Identifier) -> Option<Change> {
        if self.has_pending_events(identifier) {
            return None;
        }
        self.sync.remove(identifier)
    }
}

/// What a second arrival of a held event changes: a person stands behind it from now on.
fn promoted(held: &Held, origin: Origin) -> Option<Held> {
    let promotes = held.origin == Origin::Synced && origin == Origin::Submitted;
    promotes.then(|| Held {
        origin,
        ..held.clone()
    })
}

#[cfg(test)]
mod tests;
