//! Wanted events: expired, and their data still looked for.
//!
//! Invariant: a wanted event is not held: it authorises nothing, and it leaves as soon as a newer
//! version or a copy that a person sends takes its place.

use grip_nostr::{Event, EventId};
use grip_types::{Identifier, Origin};

use super::{Expired, Purgatory};
use crate::{Change, CompactEvent, Held, Millis, WantedEntry, journal::Class, wanted::Worth};

impl Purgatory {
    /// The wanted event of this id.
    pub fn find_wanted(&self, id: &EventId) -> Option<&WantedEntry> {
        self.wanted.get(id)
    }

    /// The wanted events of an identifier.
    pub fn wanted(&self, identifier: &Identifier) -> impl Iterator<Item = &WantedEntry> {
        self.wanted.of(identifier)
    }

    /// Ends the search for one event's data.
    pub fn remove_wanted(&mut self, id: &EventId) -> Vec<Change> {
        let Some(entry) = self.wanted.remove(id) else {
            return Vec::new();
        };
        let mut changes = vec![Change::remove(Class::Wanted, id)];
        for identifier in &entry.identifiers {
            changes.extend(self.end_idle_search(identifier));
        }
        changes
    }

    /// Ends the search for the states that `state` takes the place of.
    pub fn remove_superseded(&mut self, identifier: &Identifier, state: &Event) -> Vec<Change> {
        let state = CompactEvent::new(state);
        let older = self.wanted.of(identifier).filter(|entry| {
            let other = &entry.held.event;
            is_version(other, &state) && state.supersedes(other)
        });
        let older: Vec<EventId> = older.map(|entry| entry.held.id()).collect();
        self.give_up(&older)
    }

    /// Says whether a copy that came by sync is one of what is wanted already.
    pub(super) fn is_wanted_already(&self, id: &EventId, origin: Origin) -> bool {
        origin == Origin::Synced && self.wanted.get(id).is_some()
    }

    /// Says whether a newer version of a state is held or wanted.
    pub(super) fn has_newer(&self, identifier: &Identifier, state: &CompactEvent) -> bool {
        let held = self.find_state(identifier).iter().map(|entry| &entry.held);
        let wanted = self.wanted.of(identifier).map(|entry| &entry.held);
        let mut others = held.chain(wanted).map(|held| &held.event);
        others.any(|other| is_version(other, state) && other.supersedes(state))
    }

    /// Looks for the data of a served event again, as it is not here any more: at once, and as long
    /// as for one that has expired. One that is wanted already stays as it is.
    pub fn want_again(
        &mut self,
        event: Event,
        identifier: &Identifier,
        now: Millis,
    ) -> Vec<Change> {
        if self.wanted.get(&event.id).is_some() {
            return Vec::new();
        }
        let held = Held::new(&event, Origin::Submitted, now, now);
        let mut changes = self.want(vec![identifier.clone()], held, now);
        changes.extend(self.sync_now(identifier, now));
        changes
    }

    /// Goes on looking for the data of an event that has just expired, unless the event itself
    /// has ended. Others make room for it: the oldest of its author at the author's share, of its
    /// class and family beside it, and at the bounds of all the least ([`Worth`]).
    pub(super) fn want(
        &mut self,
        identifiers: Vec<Identifier>,
        held: Held,
        now: Millis,
    ) -> Vec<Change> {
        let entry = WantedEntry {
            identifiers,
            held: Held {
                added_at: now,
                expires_at: now + self.bounds.wanted_lifetime,
                ..held
            },
        };
        let size = entry.size_bytes();
        let fits = self.bounds.wanted > 0 && size <= self.bounds.wanted_bytes;
        if !fits || entry.identifiers.is_empty() || entry.held.deadline() <= now {
            return Vec::new();
        }
        let share = self.bounds.per_author.saturating_sub(1);
        let mut changes = self.give_up(&self.wanted.beyond(&entry.held.author(), share));
        for identifier in &entry.identifiers {
            changes.extend(self.make_room_beside(identifier, &entry));
        }
        let room = (self.bounds.wanted - 1, self.bounds.wanted_bytes - size);
        changes.extend(self.give_up_least(room.0, room.1, Some(&entry)));
        if self.wanted.len() > room.0 || self.wanted.bytes() > room.1 {
            return changes;
        }
        changes.push(Change::put_wanted(&entry));
        let within = now + self.bounds.wanted_interval;
        for identifier in &entry.identifiers {
            changes.extend(self.sync.bring_forward(identifier, within));
        }
        self.wanted.insert(entry);
        changes
    }

    /// Gives up the least beyond `entries` and `bytes`, but no state for a pull request and nothing of
    /// a maintainer for a stranger.
    fn give_up_least(
        &mut self,
        entries: usize,
        bytes: usize,
        new: Option<&WantedEntry>,
    ) -> Vec<Change> {
        let may_leave = |least: &WantedEntry| {
            new.is_none_or(|new| Worth::of(least).gives_way_to(Worth::of(new)))
        };
        let mut changes = Vec::new();
        while self.wanted.len() > entries || self.wanted.bytes() > bytes {
            let least = self.wanted.least().and_then(|id| self.wanted.get(&id));
            let Some(least) = least.filter(|least| may_leave(least)) else {
                break;
            };
            let id = least.held.id();
            changes.extend(self.remove_wanted(&id));
        }
        changes
    }

    /// Gives up what is beyond the bounds, as after they were changed.
    pub(super) fn keep_wanted_bounds(&mut self) -> Vec<Change> {
        let share = self.bounds.per_author;
        let authors = self.wanted.authors();
        let beyond: Vec<EventId> = authors
            .flat_map(|author| self.wanted.beyond(author, share))
            .collect();
        let mut changes = self.give_up(&beyond);
        changes.extend(self.give_up_least(self.bounds.wanted, self.bounds.wanted_bytes, None));
        changes
    }

    fn give_up(&mut self, ids: &[EventId]) -> Vec<Change> {
        let removals = ids.iter().map(|id| self.remove_wanted(id));
        removals.collect::<Vec<_>>().concat()
    }

    /// Gives up the oldest of the class and family of `entry` beyond what may be held of one class:
    /// a flood of pull requests takes the place of pull requests only, and that of strangers under
    /// the same name the place of strangers.
    fn make_room_beside(&mut self, identifier: &Identifier, entry: &WantedEntry) -> Vec<Change> {
        let same = self.wanted.of(identifier);
        let same = same.filter(|other| {
            other.is_state() == entry.is_state() && other.held.shares_room_with(&entry.held)
        });
        let mut same: Vec<(Millis, EventId)> = same
            .map(|other| (other.held.added_at, other.held.id()))
            .collect();
        same.sort_unstable();
        let room = self.bounds.per_identifier.saturating_sub(1);
        let beyond = same.len().saturating_sub(room);
        let oldest: Vec<EventId> = same[..beyond].iter().map(|(_, id)| *id).collect();
        self.give_up(&oldest)
    }

    /// Gives up what has been looked for long enough.
    pub(super) fn expire_wanted(
        &mut self,
        now: Millis,
        expired: &mut Vec<Expired>,
        changes: &mut Vec<Change>,
    ) {
        while let Some(event_id) = self.wanted.due(now) {
            let Some(entry) = self.wanted.get(&event_id) else {
                break;
            };
            let (identifiers, origin) = (entry.identifiers.clone(), entry.held.origin);
            changes.extend(self.remove_wanted(&event_id));
            changes.extend(self.remember(event_id, Some(origin), now));
            expired.push(Expired::Wanted {
                identifiers,
                event_id,
            });
        }
    }
}

/// Says whether two events of one identifier are versions of the same state.
fn is_version(one: &CompactEvent, other: &CompactEvent) -> bool {
    one.author() == other.author() && one.kind() == other.kind() && one.id() != other.id()
}
