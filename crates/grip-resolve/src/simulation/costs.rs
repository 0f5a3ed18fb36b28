//! Costs of a node in an hour: publishing, refreshing its table, lookups.

use std::{collections::HashSet, fmt};

use grip_dht::limits;

use super::{
    Size,
    figures::Figures,
    view::{HANDSHAKE, NAMED_PEER, REQUEST},
    world::World,
};

/// Searches for the nearest nodes that are sampled.
const SAMPLES: u64 = 200;
/// Keys of a repository: its name, and the digest of its manifest.
const KEYS: f64 = 2.0;
/// A publication is two searches, one for the record and one for the provider record.
const SEARCHES: f64 = 2.0;
/// Hours between two publications of a repository, and between two refreshes of a table.
const PUBLISH_HOURS: f64 = 8.0;
const REFRESH_HOURS: f64 = 1.0;
/// Bytes of a manifest as it is stored.
const RECORD: f64 = 1_600.0;
/// Lookups of an hour that are shown.
const LOOKUPS: f64 = 100.0;

/// Costs of one node in one hour.
pub(super) struct Costs {
    /// Requests of one search for the nearest nodes.
    search: f64,
    repositories: f64,
    buckets: f64,
    lookup_requests: f64,
    lookup_bytes: f64,
}

impl Costs {
    pub fn sample(world: &World, size: &Size, figures: &Figures) -> Self {
        let mut requests = 0;
        for n in 0..SAMPLES {
            let place = u128::from(world.draw([40, n])) << 64;
            requests += search(world, world.some_live_node(n + 1_000_000), place);
        }
        Self {
            search: requests as f64 / SAMPLES as f64,
            repositories: size.repositories as f64 / size.nodes as f64,
            buckets: (size.nodes as f64 / limits::PEERS as f64).log2().max(1.0) + 1.0,
            lookup_requests: figures.requests_per_lookup(),
            lookup_bytes: figures.bytes_per_lookup(),
        }
    }

    fn publish_requests(&self) -> f64 {
        let stored = limits::PEERS as f64;
        self.repositories * KEYS * SEARCHES * (self.search + stored) / PUBLISH_HOURS
    }

    fn publish_bytes(&self) -> f64 {
        let peers = limits::PEERS as f64;
        let search = self.search * (request() + peers * NAMED_PEER as f64);
        let stored = peers * (request() + RECORD / SEARCHES);
        self.repositories * KEYS * SEARCHES * (search + stored) / PUBLISH_HOURS
    }

    fn refresh_requests(&self) -> f64 {
        self.buckets * self.search / REFRESH_HOURS
    }

    fn refresh_bytes(&self) -> f64 {
        let peers = limits::PEERS as f64;
        self.refresh_requests() * (request() + peers * NAMED_PEER as f64)
    }

    /// All of it, what others ask of this node included: on average as much as it asks of them.
    pub fn bytes_per_hour(&self) -> f64 {
        let lookups = LOOKUPS * self.lookup_bytes;
        2.0 * (self.publish_bytes() + self.refresh_bytes() + lookups)
    }
}

/// A request and its part of a handshake: most of them are the first to their peer.
fn request() -> f64 {
    (REQUEST + HANDSHAKE) as f64
}

/// Requests until the twenty nearest nodes that respond have been asked, three at a time.
fn search(world: &World, from: usize, place: u128) -> u64 {
    let mut known = world.closest_known(from, place);
    let (mut asked, mut dead, mut requests) = (HashSet::new(), HashSet::new(), 0);
    loop {
        let near: Vec<usize> = known
            .iter()
            .filter(|n| !dead.contains(*n))
            .copied()
            .collect();
        let near = world.sorted(near, place);
        let next: Vec<usize> = near
            .into_iter()
            .take(limits::PEERS)
            .filter(|n| !asked.contains(n))
            .take(3)
            .collect();
        if next.is_empty() {
            return requests;
        }
        for n in next {
            asked.insert(n);
            requests += 1;
            if world.is_reachable(n) {
                known.extend(world.closest_known(n, place));
            } else {
                dead.insert(n);
            }
        }
        known.sort_unstable();
        known.dedup();
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| an hour of one node | requests | kB |\n|---|---|---|")?;
        let mut row = |what: &str, requests: f64, bytes: f64| {
            writeln!(f, "| {what} | {requests:.0} | {:.0} |", bytes / 1e3)
        };
        let published = format!("publishing {:.0} repositories", self.repositories);
        row(&published, self.publish_requests(), self.publish_bytes())?;
        row(
            "refreshing the table once",
            self.refresh_requests(),
            self.refresh_bytes(),
        )?;
        row(
            "100 lookups",
            LOOKUPS * self.lookup_requests,
            LOOKUPS * self.lookup_bytes,
        )?;
        let requests =
            self.publish_requests() + self.refresh_requests() + LOOKUPS * self.lookup_requests;
        row(
            "all of it, and as much for others",
            2.0 * requests,
            self.bytes_per_hour(),
        )?;
        write!(
            f,
            "\na search for the nearest nodes: {:.1} requests",
            self.search
        )
    }
}
