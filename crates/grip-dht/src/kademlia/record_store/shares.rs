//! Shares of those who sent what is stored for others.
//!
//! Names of peers cost nothing, and neither does a key near ours: without shares, a stranger who makes
//! up enough of both has everything that others stored here pushed out. So a source that has more than
//! one of [`PARTS`] is the first to lose some, and it takes that many hosts to push out what others
//! have.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::IpAddr,
};

use libp2p::PeerId;

use crate::Distance;

/// Parts of all places, of which a source keeps one when no more are free.
const PARTS: usize = 16;

/// Who is charged for something stored: a public host whatever the names of its peers, or a peer at
/// a private address, which many may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::kademlia) enum Source {
    Host(IpAddr),
    Peer(PeerId),
}

impl Source {
    /// `host` is where `peer` is connected from, if that is public.
    pub(in crate::kademlia) fn new(peer: PeerId, host: Option<IpAddr>) -> Self {
        host.map_or(Self::Peer(peer), Self::Host)
    }
}

/// The places that each source has, by the distances of their keys from us.
pub(super) struct Shares {
    most: usize,
    by_source: HashMap<Source, Places>,
    /// The same sources, the one with most places last.
    by_total: BTreeSet<(usize, Source)>,
}

/// Never empty.
#[derive(Default)]
struct Places {
    total: usize,
    by_distance: BTreeMap<Distance, usize>,
}

impl Shares {
    /// `places` are all that there are.
    pub(super) fn new(places: usize) -> Self {
        Self {
            most: (places / PARTS).max(1),
            by_source: HashMap::new(),
            by_total: BTreeSet::new(),
        }
    }

    pub(super) fn add(&mut self, source: Source, distance: Distance, places: usize) {
        let held = self.by_source.entry(source).or_default();
        self.by_total.remove(&(held.total, source));
        held.total += places;
        *held.by_distance.entry(distance).or_default() += places;
        self.by_total.insert((held.total, source));
    }

    /// Gives back what was added.
    pub(super) fn remove(&mut self, source: Source, distance: Distance, places: usize) {
        let Some(held) = self.by_source.get_mut(&source) else {
            return;
        };
        self.by_total.remove(&(held.total, source));
        held.total -= places;
        if let Some(at_distance) = held.by_distance.get_mut(&distance) {
            *at_distance -= places;
            if *at_distance == 0 {
                held.by_distance.remove(&distance);
            }
        }
        if held.total == 0 {
            self.by_source.remove(&source);
        } else {
            self.by_total.insert((held.total, source));
        }
    }

    /// Whether `source` has more than its share.
    pub(super) fn is_exceeded(&self, source: &Source) -> bool {
        let held = self.by_source.get(source);
        held.is_some_and(|held| held.total > self.most)
    }

    /// The source that has most, and its key farthest from us, if it has more than its share.
    pub(super) fn excess(&self) -> Option<(Source, Distance)> {
        let (_, source) = self.by_total.last()?;
        let farthest = self.by_source.get(source)?.by_distance.last_key_value();
        let (distance, _) = farthest.filter(|_| self.is_exceeded(source))?;
        Some((*source, *distance))
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.by_source.len(), self.by_total.len()]
    }
}
