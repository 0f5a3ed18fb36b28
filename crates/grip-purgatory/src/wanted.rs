//! Events that expired without their data and are still looked for (G02-2, G02-3).

use std::collections::{BTreeSet, HashMap};

use grip_nostr::{EventId, PublicKey};
use grip_types::Identifier;

use crate::{Millis, WantedEntry};

/// What is given up first: anything of strangers before that of maintainers, and pull requests
/// before states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Worth {
    is_granted: bool,
    is_state: bool,
}

impl Worth {
    pub(crate) fn of(entry: &WantedEntry) -> Self {
        Self {
            is_granted: entry.held.is_granted(),
            is_state: entry.is_state(),
        }
    }

    /// Says whether something of this worth may be given up for `other`.
    pub(crate) fn gives_way_to(self, other: Self) -> bool {
        self.is_granted <= other.is_granted && self.is_state <= other.is_state
    }
}

/// The entries and their indexes. The purgatory keeps the bounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    entries: HashMap<EventId, WantedEntry>,
    by_identifier: HashMap<Identifier, BTreeSet<EventId>>,
    /// In the order in which they make room.
    by_worth: BTreeSet<(Worth, Millis, EventId)>,
    by_author: HashMap<PublicKey, BTreeSet<(Millis, EventId)>>,
    deadlines: BTreeSet<(Millis, EventId)>,
    bytes: usize,
}

impl Wanted {
    pub(crate) fn get(&self, id: &EventId) -> Option<&WantedEntry> {
        self.entries.get(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Says whether something is wanted for an identifier.
    pub(crate) fn concerns(&self, identifier: &Identifier) -> bool {
        self.by_identifier.contains_key(identifier)
    }

    /// The identifiers something is wanted for.
    pub(crate) fn identifiers(&self) -> impl Iterator<Item = &Identifier> {
        self.by_identifier.keys()
    }

    pub(crate) fn of(&self, identifier: &Identifier) -> impl Iterator<Item = &WantedEntry> {
        let ids = self.by_identifier.get(identifier);
        ids.into_iter()
            .flatten()
            .filter_map(|id| self.entries.get(id))
    }

    /// All entries, the one that ends first at the front.
    pub(crate) fn by_deadline(&self) -> impl Iterator<Item = &WantedEntry> {
        let ids = self.deadlines.iter();
        ids.filter_map(|(_, id)| self.entries.get(id))
    }

    /// The one to give up first: the oldest of those that are worth least.
    pub(crate) fn least(&self) -> Option<EventId> {
        self.by_worth.first().map(|(_, _, id)| *id)
    }

    /// The authors something is wanted of.
    pub(crate) fn authors(&self) -> impl Iterator<Item = &PublicKey> {
        self.by_author.keys()
    }

    /// The oldest of an author, without the newest `kept`.
    pub(crate) fn beyond(&self, author: &PublicKey, kept: usize) -> Vec<EventId> {
        let ids = self.by_author.get(author);
        let beyond = ids.map_or(0, BTreeSet::len).saturating_sub(kept);
        let oldest = ids.into_iter().flatten().take(beyond);
        oldest.map(|(_, id)| *id).collect()
    }

    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// An entry whose time is over.
    pub(crate) fn due(&self, now: Millis) -> Option<EventId> {
        let (at, id) = self.deadlines.first()?;
        (*at <= now).then_some(*id)
    }

    pub(crate) fn insert(&mut self, entry: WantedEntry) {
        let id = entry.held.id();
        let author = entry.held.author();
        let worth = Worth::of(&entry);
        self.by_worth.insert((worth, entry.held.added_at, id));
        let of_author = self.by_author.entry(author).or_default();
        of_author.insert((entry.held.added_at, id));
        self.deadlines.insert((entry.held.deadline(), id));
        self.bytes += entry.size_bytes();
        for identifier in &entry.identifiers {
            let ids = self.by_identifier.entry(identifier.clone());
            ids.or_default().insert(id);
        }
        self.entries.insert(id, entry);
    }

    pub(crate) fn remove(&mut self, id: &EventId) -> Option<WantedEntry> {
        let entry = self.entries.remove(id)?;
        let added_at = entry.held.added_at;
        self.by_worth.remove(&(Worth::of(&entry), added_at, *id));
        let author = entry.held.author();
        if let Some(ids) = self.by_author.get_mut(&author) {
            ids.remove(&(added_at, *id));
            if ids.is_empty() {
                self.by_author.remove(&author);
            }
        }
        self.deadlines.remove(&(entry.held.deadline(), *id));
        self.bytes -= entry.size_bytes();
        for identifier in &entry.identifiers {
            if let Some(ids) = self.by_identifier.get_mut(identifier) {
                ids.remove(id);
                if ids.is_empty() {
                    self.by_identifier.remove(identifier);
                }
            }
        }
        Some(entry)
    }
}
