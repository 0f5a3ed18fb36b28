//! Bounds of the purgatory: the one store anyone can fill for nothing (G01-22).
//!
//! Whose share is used up:
//!
//! | bound | counts against |
//! |---|---|
//! | `per_author`, `per_author_bytes` | the key that signed the event |
//! | an eighth of what is free | the network of the client that sent it |
//! | `per_identifier`, `per_identifier_bytes` | the maintainers of one repository; of pull requests and of pushed `refs/nostr/*`, at most a quarter of what is free in it per network |
//! | `total`, `total_bytes` | all authors who maintain nothing served here |
//! | the same again | all who do |
//! | `hidden`, `hidden_bytes` | announcements whose time ran out; the oldest leaves for a new one |
//!
//! The two pools are apart in every respect, so that whatever strangers hold, a maintainer of
//! something served finds room. A network's share shrinks with what is free: fifty networks that
//! take all they get leave a seventh to the fifty-first.

use std::{collections::HashMap, time::Duration};

use grip_nostr::{PublicKey, RepoAddr};
use grip_types::ClientNetwork;

use crate::{
    LIFETIME, PLACEHOLDER_LIFETIME, SYNC_DELAY_DEFAULT, SYNC_DELAY_IMMEDIATE, WANTED_INTERVAL,
    WANTED_LIFETIME, journal::Class,
};

/// One network of clients has at most this part of what is free in its pool.
const PER_NETWORK: usize = 8;
/// The same for pull requests to one repository.
const PER_NETWORK_IN_FAMILY: usize = 4;

/// The most that is held. What would go beyond is refused with [`Full`]; nothing held is dropped
/// to make room, since it was acknowledged, but announcements that nobody has pushed to, and what
/// an author's own newer state stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Events of one author. Default 100; for a state beyond it the author's oldest pull request is
    /// given up, or an earlier state of that name ([`Purgatory::give_way_to_state`]). As many may be
    /// wanted beside; there the author's own oldest is given up for a new one.
    ///
    /// [`Purgatory::give_way_to_state`]: crate::Purgatory::give_way_to_state
    pub per_author: usize,
    /// Memory of those. Default 16 MiB.
    pub per_author_bytes: usize,
    /// Entries of one class for one repository and its maintainers. Default 200. Classes are
    /// counted apart, so that a flood of pull requests cannot keep a maintainer's state out. As
    /// many may be wanted beside; there the oldest is given up for a new one.
    ///
    /// Also announcements of one identifier that are shown: [`Purgatory::make_room`] hides what
    /// is beyond.
    ///
    /// [`Purgatory::make_room`]: crate::Purgatory::make_room
    pub per_identifier: usize,
    /// Memory of those. Default 32 MiB.
    pub per_identifier_bytes: usize,
    /// Entries in all of authors who maintain nothing that is served, and as many again of those
    /// who do. Default 50,000.
    pub total: usize,
    /// Memory of the events of each of the two. Default 256 MiB.
    pub total_bytes: usize,
    /// Hidden announcements, which count nowhere else; the oldest is forgotten for a new one.
    /// Default 10,000.
    pub hidden: usize,
    /// Memory of those, with the same rule. Default 32 MiB.
    pub hidden_bytes: usize,
    /// Ids remembered after they expired; the oldest is forgotten for a new one. Default 50,000.
    pub expired_ids: usize,
    /// How long an event waits for its git data. Default 30 minutes (GRASP-01).
    pub lifetime: Duration,
    /// How long a pushed `refs/nostr/…` waits for its event. Default 20 minutes (GRASP-01).
    pub placeholder_lifetime: Duration,
    /// Events still looked for after they expired. Default 10,000. For a new one the oldest pull
    /// request of a stranger is given up, or if there is none, the oldest state of one, and so on
    /// with those of maintainers; but no state for a pull request, and nothing of a maintainer for
    /// a stranger.
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
            per_author_bytes: 16 << 20,
            per_identifier: 200,
            per_identifier_bytes: 32 << 20,
            total: 50_000,
            total_bytes: 256 << 20,
            hidden: 10_000,
            hidden_bytes: 32 << 20,
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
    AuthorBytes,
    Network,
    NetworkBytes,
    Identifier,
    IdentifierBytes,
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
            Which::AuthorBytes => format!(
                "events of yours take up {limit} bytes while they wait for git data; push it, or try again when they have expired"
            ),
            Which::Network => format!(
                "{limit} events or pushed tips from your network wait for their other half already; push or publish it, or try again when they have expired"
            ),
            Which::NetworkBytes => format!(
                "the {limit} bytes for events from your network that wait for git data are used up; push it, or try again when they have expired"
            ),
            Which::Identifier => format!(
                "{limit} entries wait for this repository already; try again when some have expired"
            ),
            Which::IdentifierBytes => format!(
                "events that wait for this repository take up {limit} bytes already; try again when some have expired"
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
    pub(crate) network: Option<ClientNetwork>,
    /// The repository whose maintainers' share it is.
    pub(crate) family: Option<RepoAddr>,
    /// Its author may move the refs of something served.
    pub(crate) granted: bool,
    /// It is an announcement whose time ran out.
    pub(crate) hidden: bool,
    pub(crate) bytes: usize,
}

impl Weight {
    fn placeholder(&self) -> Option<&RepoAddr> {
        let is_one = self.class == Class::Placeholder;
        self.family.as_ref().filter(|_| is_one)
    }
}

/// How many entries of one class a repository and its maintainers have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FamilyCount {
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
    /// Of those, from the network of the entry in question.
    pub(crate) of_network: usize,
    pub(crate) bytes_of_network: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    entries: usize,
    bytes: usize,
}

impl Amount {
    fn add(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.entries -= 1;
        self.bytes -= bytes;
    }
}

/// What the entries of one pool take up. A count that reaches zero leaves its map, so the maps are
/// bounded by the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pool {
    authors: HashMap<PublicKey, Amount>,
    networks: HashMap<ClientNetwork, Amount>,
    total: Amount,
}

impl Pool {
    fn check(&self, weight: &Weight, bounds: &Bounds, family: FamilyCount) -> Result<(), Full> {
        let full = |which, limit| Err(Full { which, limit });
        let exceeds = |used: usize, limit: usize| used.saturating_add(weight.bytes) > limit;
        let author = weight.author.and_then(|author| self.authors.get(&author));
        let author = author.copied().unwrap_or_default();
        if weight.author.is_some() && author.entries >= bounds.per_author {
            return full(Which::Author, bounds.per_author);
        }
        if exceeds(author.bytes, bounds.per_author_bytes) {
            return full(Which::AuthorBytes, bounds.per_author_bytes);
        }
        if family.entries >= bounds.per_identifier {
            return full(Which::Identifier, bounds.per_identifier);
        }
        // One at least: what is too large by itself is refused elsewhere.
        if family.entries > 0 && exceeds(family.bytes, bounds.per_identifier_bytes) {
            return full(Which::IdentifierBytes, bounds.per_identifier_bytes);
        }
        if let Some(network) = &weight.network {
            self.check_network(network, weight, bounds, family)?;
        }
        if self.total.entries >= bounds.total {
            return full(Which::Total, bounds.total);
        }
        if exceeds(self.total.bytes, bounds.total_bytes) {
            return full(Which::Bytes, bounds.total_bytes);
        }
        Ok(())
    }

    fn check_network(
        &self,
        network: &ClientNetwork,
        weight: &Weight,
        bounds: &Bounds,
        family: FamilyCount,
    ) -> Result<(), Full> {
        let full = |which, limit| Err(Full { which, limit });
        let used = self.networks.get(network).copied().unwrap_or_default();
        let free = bounds.total.saturating_sub(self.total.entries);
        // One at least: beyond it the bound of all decides.
        let limit = (free / PER_NETWORK).max(1);
        if used.entries >= limit {
            return full(Which::Network, limit);
        }
        let free = bounds.total_bytes.saturating_sub(self.total.bytes);
        let limit = free / PER_NETWORK;
        if used.entries > 0 && used.bytes.saturating_add(weight.bytes) > limit {
            return full(Which::NetworkBytes, limit);
        }
        // Pull requests and their tips come from anyone; the other classes from maintainers alone.
        let free = bounds.per_identifier.saturating_sub(family.entries);
        let limit = (free / PER_NETWORK_IN_FAMILY).max(1);
        let is_of_anyone = matches!(weight.class, Class::Pr | Class::Placeholder);
        if is_of_anyone && family.of_network >= limit {
            return full(Which::Network, limit);
        }
        let free = bounds.per_identifier_bytes.saturating_sub(family.bytes);
        let limit = free / PER_NETWORK_IN_FAMILY;
        let bytes = family.bytes_of_network.saturating_add(weight.bytes);
        if is_of_anyone && family.of_network > 0 && bytes > limit {
            return full(Which::NetworkBytes, limit);
        }
        Ok(())
    }

    fn add(&mut self, weight: &Weight) {
        if let Some(author) = weight.author {
            self.authors.entry(author).or_default().add(weight.bytes);
        }
        if let Some(network) = weight.network {
            self.networks.entry(network).or_default().add(weight.bytes);
        }
        self.total.add(weight.bytes);
    }

    fn remove(&mut self, weight: &Weight) {
        if let Some(author) = &weight.author {
            subtract(&mut self.authors, author, weight.bytes);
        }
        if let Some(network) = &weight.network {
            subtract(&mut self.networks, network, weight.bytes);
        }
        self.total.remove(weight.bytes);
    }
}

/// What all entries take up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    strangers: Pool,
    granted: Pool,
    hidden: Amount,
    /// Of placeholders, in all and by network; the other classes are filed by identifier, where
    /// they can be counted.
    placeholders: HashMap<RepoAddr, Amount>,
    placeholders_by_network: HashMap<(RepoAddr, ClientNetwork), Amount>,
    classes: HashMap<Class, usize>,
}

impl Usage {
    /// Says whether `weight` fits on top of what is there; `family` counts the entries of its class
    /// in its family and pool.
    pub(crate) fn check(
        &self,
        weight: &Weight,
        bounds: &Bounds,
        family: FamilyCount,
    ) -> Result<(), Full> {
        let pool = if weight.granted {
            &self.granted
        } else {
            &self.strangers
        };
        pool.check(weight, bounds, family)
    }

    fn pool(&mut self, weight: &Weight) -> &mut Pool {
        if weight.granted {
            &mut self.granted
        } else {
            &mut self.strangers
        }
    }

    pub(crate) fn add(&mut self, weight: &Weight) {
        if let Some(repo) = weight.placeholder() {
            let of_repo = self.placeholders.entry(repo.clone());
            of_repo.or_default().add(weight.bytes);
            if let Some(network) = weight.network {
                let of_network = self.placeholders_by_network.entry((repo.clone(), network));
                of_network.or_default().add(weight.bytes);
            }
        }
        *self.classes.entry(weight.class).or_default() += 1;
        if weight.hidden {
            self.hidden.add(weight.bytes);
        } else {
            self.pool(weight).add(weight);
        }
    }

    pub(crate) fn remove(&mut self, weight: &Weight) {
        if let Some(repo) = weight.placeholder() {
            subtract(&mut self.placeholders, repo, weight.bytes);
            if let Some(network) = weight.network {
                let key = (repo.clone(), network);
                subtract(&mut self.placeholders_by_network, &key, weight.bytes);
            }
        }
        if let Some(count) = self.classes.get_mut(&weight.class) {
            *count -= 1;
            if *count == 0 {
                self.classes.remove(&weight.class);
            }
        }
        if weight.hidden {
            self.hidden.remove(weight.bytes);
        } else {
            self.pool(weight).remove(weight);
        }
    }

    #[cfg(test)]
    pub(crate) fn strangers_held(&self) -> usize {
        self.strangers.total.entries
    }

    pub(crate) fn placeholders_of(
        &self,
        repo: &RepoAddr,
        network: Option<ClientNetwork>,
    ) -> FamilyCount {
        let entries = |held: Option<&Amount>| held.map_or(0, |held| held.entries);
        let of_network = network.map(|network| (repo.clone(), network));
        let of_network = of_network.and_then(|key| self.placeholders_by_network.get(&key));
        FamilyCount {
            entries: entries(self.placeholders.get(repo)),
            of_network: entries(of_network),
            // A name and a commit: their number is bound enough.
            ..FamilyCount::default()
        }
    }

    pub(crate) fn of_class(&self, class: Class) -> usize {
        self.classes.get(&class).copied().unwrap_or(0)
    }

    pub(crate) fn hidden(&self) -> usize {
        self.hidden.entries
    }

    /// Says whether there are more hidden announcements than may be.
    pub(crate) fn hides_too_many(&self, bounds: &Bounds) -> bool {
        self.hidden.entries > bounds.hidden || self.hidden.bytes > bounds.hidden_bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.strangers.total.bytes + self.granted.total.bytes + self.hidden.bytes
    }
}

fn subtract<K: Eq + std::hash::Hash>(amounts: &mut HashMap<K, Amount>, key: &K, bytes: usize) {
    if let Some(amount) = amounts.get_mut(key) {
        amount.remove(bytes);
        if amount.entries == 0 {
            amounts.remove(key);
        }
    }
}
