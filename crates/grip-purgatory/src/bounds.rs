//! Bounds of the purgatory: the one store anyone can fill for nothing (G01-22).

use std::{collections::HashMap, time::Duration};

use grip_nostr::PublicKey;
use grip_types::Identifier;

use crate::{
    LIFETIME, PLACEHOLDER_LIFETIME, SYNC_DELAY_DEFAULT, SYNC_DELAY_IMMEDIATE, WANTED_INTERVAL,
    WANTED_LIFETIME, journal::Class,
};

/// The most that is held. What would go beyond is refused with [`Full`]; nothing held is dropped
/// to make room, since it was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Events of one author. Default 100. As many may be wanted beside; there the author's own
    /// oldest is given up for a new one.
    pub per_author: usize,
    /// Entries of one class for one identifier. Default 200. Classes are counted apart, so that
    /// a flood of pull requests cannot keep a maintainer's state out. As many may be wanted
    /// beside; there the oldest is given up for a new one.
    pub per_identifier: usize,
    /// Entries in all. Default 50,000.
    pub total: usize,
    /// Memory of all held events. Default 256 MiB.
    pub total_bytes: usize,
    /// Ids remembered after they expired; the oldest is forgotten for a new one. Default 50,000.
    pub expired_ids: usize,
    /// How long an event waits for its git data. Default 30 minutes (GRASP-01).
    pub lifetime: Duration,
    /// How long a pushed `refs/nostr/…` waits for its event. Default 20 minutes (GRASP-01).
    pub placeholder_lifetime: Duration,
    /// Events still looked for after they expired. Default 10,000. For a new one the oldest pull
    /// request is given up, or the oldest state if there are states alone; but no state for a
    /// pull request.
    pub wanted: usize,
    /// Memory of those events, with the same rule. Default 64 MiB.
    pub wanted_bytes: usize,
    /// How long they are looked for. Default 30 days.
    pub wanted_lifetime: Duration,
    /// The longest time between two attempts for them. Default one hour (GRASP-02).
    pub wanted_interval: Duration,
    /// When data is looked for elsewhere.
    pub sync_delays: SyncDelays,
}

/// How long after an event comes its data is looked for elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncDelays {
    /// For a submitted event. Default 3 minutes: its author is likely to push the data.
    pub submitted: Duration,
    /// For a synced event. Default 500 ms, in which a burst of events gathers.
    pub synced: Duration,
}

impl Default for SyncDelays {
    fn default() -> Self {
        Self {
            submitted: SYNC_DELAY_DEFAULT,
            synced: SYNC_DELAY_IMMEDIATE,
        }
    }
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            per_author: 100,
            per_identifier: 200,
            total: 50_000,
            total_bytes: 256 << 20,
            expired_ids: 50_000,
            lifetime: LIFETIME,
            placeholder_lifetime: PLACEHOLDER_LIFETIME,
            wanted: 10_000,
            wanted_bytes: 64 << 20,
            wanted_lifetime: WANTED_LIFETIME,
            wanted_interval: WANTED_INTERVAL,
            sync_delays: SyncDelays::default(),
        }
    }
}

/// Which bound was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Which {
    Author,
    Identifier,
    Total,
    Bytes,
}

/// No room for the entry. The text is what follows `rate-limited: ` in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct Full {
    pub which: Which,
    pub limit: usize,
}

impl Full {
    fn sentence(&self) -> String {
        let limit = self.limit;
        match self.which {
            Which::Author => format!(
                "{limit} events of yours wait for git data already; push it, or try again when they have expired"
            ),
            Which::Identifier => format!(
                "{limit} entries wait for this repository already; try again when some have expired"
            ),
            Which::Total => format!(
                "{limit} entries wait for their other half on this server already; try again later"
            ),
            Which::Bytes => format!(
                "the {limit} bytes for events that wait for git data are used up; try again later"
            ),
        }
    }
}

/// What one entry takes up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) class: Class,
    /// None for what was pushed: a push has no author.
    pub(crate) author: Option<PublicKey>,
    pub(crate) identifiers: Vec<Identifier>,
    pub(crate) bytes: usize,
}

impl Weight {
    fn placeholders(&self) -> &[Identifier] {
        match self.class {
            Class::Placeholder => &self.identifiers,
            _ => &[],
        }
    }
}

/// What all entries take up. A count that reaches zero leaves its map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    authors: HashMap<PublicKey, usize>,
    /// Of placeholders; the other classes are filed by identifier, where they can be counted.
    placeholders: HashMap<Identifier, usize>,
    classes: HashMap<Class, usize>,
    total: usize,
    bytes: usize,
}

impl Usage {
    /// Says whether `weight` fits on top of what is there; `of_identifier` counts the entries of
    /// its class for one identifier.
    pub(crate) fn check(
        &self,
        weight: &Weight,
        bounds: &Bounds,
        of_identifier: impl Fn(&Identifier) -> usize,
    ) -> Result<(), Full> {
        let full = |which, limit| Err(Full { which, limit });
        if let Some(author) = &weight.author
            && self.authors.get(author).copied().unwrap_or(0) >= bounds.per_author
        {
            return full(Which::Author, bounds.per_author);
        }
        let mut identifiers = weight.identifiers.iter();
        if identifiers.any(|it| of_identifier(it) >= bounds.per_identifier) {
            return full(Which::Identifier, bounds.per_identifier);
        }
        if self.total >= bounds.total {
            return full(Which::Total, bounds.total);
        }
        if self.bytes.saturating_add(weight.bytes) > bounds.total_bytes {
            return full(Which::Bytes, bounds.total_bytes);
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, weight: &Weight) {
        if let Some(author) = weight.author {
            *self.authors.entry(author).or_default() += 1;
        }
        for identifier in weight.placeholders() {
            *self.placeholders.entry(identifier.clone()).or_default() += 1;
        }
        *self.classes.entry(weight.class).or_default() += 1;
        self.total += 1;
        self.bytes += weight.bytes;
    }

    pub(crate) fn remove(&mut self, weight: &Weight) {
        if let Some(author) = weight.author {
            decrement(&mut self.authors, &author);
        }
        for identifier in weight.placeholders() {
            decrement(&mut self.placeholders, identifier);
        }
        decrement(&mut self.classes, &weight.class);
        self.total -= 1;
        self.bytes -= weight.bytes;
    }

    pub(crate) fn placeholders_of(&self, identifier: &Identifier) -> usize {
        self.placeholders.get(identifier).copied().unwrap_or(0)
    }

    pub(crate) fn of_class(&self, class: Class) -> usize {
        self.classes.get(&class).copied().unwrap_or(0)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

fn decrement<K: Eq + std::hash::Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
