//! The nodes of the network: where they are, when they are up, and what they are like.

use std::{collections::HashMap, ops::Range};

use grip_dht::{PeerName, RecordKey, limits};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::hash::{draw, fraction};

/// How far back records and sessions go, and how far ahead, in seconds.
const PAST: f64 = 24.0 * 3_600.0;
const FUTURE: f64 = 4.0 * 3_600.0;
/// How old an entry of a routing table may be, in seconds.
const MAX_ENTRY_AGE: f64 = 3_600.0;

/// What a network is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub name: &'static str,
    /// Mean times of being up and down, in hours; 0 if nodes never go.
    pub up: f64,
    pub down: f64,
    /// Share of nodes that just went, with no table knowing it yet.
    pub killed: f64,
    /// Share of lost packets.
    pub loss: f64,
    /// Share of nodes that nobody can dial.
    pub nat: f64,
    /// Share of nodes that lie.
    pub liars: f64,
    /// Round trips of a first request to a peer: TCP, noise with its negotiation (two), the request.
    pub cold_trips: u32,
}

impl Conditions {
    const CALM: Self = Self {
        name: "calm",
        up: 0.0,
        down: 0.0,
        killed: 0.0,
        loss: 0.0,
        nat: 0.0,
        liars: 0.0,
        cold_trips: 4,
    };
    /// Machines that are meant to be up.
    pub const SERVERS: Self = Self {
        name: "servers",
        up: 72.0,
        down: 1.0,
        loss: 0.005,
        nat: 0.1,
        liars: 0.01,
        ..Self::CALM
    };
    /// Machines at homes, half of them behind a NAT.
    pub const HOMES: Self = Self {
        name: "homes",
        up: 8.0,
        down: 4.0,
        loss: 0.01,
        nat: 0.5,
        liars: 0.05,
        ..Self::CALM
    };
    /// The same if a first request took two round trips, as with QUIC.
    pub const HOMES_QUIC: Self = Self {
        name: "homes, two round trips",
        cold_trips: 2,
        ..Self::HOMES
    };
    const STORM: Self = Self {
        name: "storm",
        killed: 0.3,
        liars: 0.1,
        loss: 0.03,
        ..Self::HOMES
    };
    /// Whole networks, and of a hundred lookups those that have to find the newest manifest.
    pub const NETWORKS: [(Self, f64); 5] = [
        (Self::CALM, 97.0),
        (Self::SERVERS, 92.0),
        (Self::HOMES, 78.0),
        (Self::STORM, 50.0),
        (Self::HOMES_QUIC, 85.0),
    ];
    /// A calm network in which one thing is otherwise, and the same.
    pub const ONE_BY_ONE: [(Self, f64); 13] = [
        (Self::up_and_down("up 24 h, down 2 h", 24.0, 2.0), 85.0),
        (Self::up_and_down("up 8 h, down 4 h", 8.0, 4.0), 85.0),
        (Self::up_and_down("up 2 h, down 2 h", 2.0, 2.0), 45.0),
        (Self::killed("10 % just gone", 0.1), 85.0),
        (Self::killed("30 % just gone", 0.3), 75.0),
        (Self::loss("1 % of packets lost", 0.01), 90.0),
        (Self::loss("5 % of packets lost", 0.05), 75.0),
        (Self::nat("30 % behind a NAT", 0.3), 92.0),
        (Self::nat("50 % behind a NAT", 0.5), 92.0),
        (Self::nat("70 % behind a NAT", 0.7), 92.0),
        (Self::liars("5 % liars", 0.05), 85.0),
        (Self::liars("10 % liars", 0.1), 75.0),
        (Self::liars("30 % liars", 0.3), 45.0),
    ];

    const fn up_and_down(name: &'static str, up: f64, down: f64) -> Self {
        Self {
            name,
            up,
            down,
            ..Self::CALM
        }
    }

    const fn killed(name: &'static str, killed: f64) -> Self {
        Self {
            name,
            killed,
            ..Self::CALM
        }
    }

    const fn loss(name: &'static str, loss: f64) -> Self {
        Self {
            name,
            loss,
            ..Self::CALM
        }
    }

    const fn nat(name: &'static str, nat: f64) -> Self {
        Self {
            name,
            nat,
            ..Self::CALM
        }
    }

    const fn liars(name: &'static str, liars: f64) -> Self {
        Self {
            name,
            liars,
            ..Self::CALM
        }
    }
}

/// How a node lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// A value that proves nothing.
    Garbage,
    /// The manifest before the newest, well signed, and other liars as the nearest.
    Outdated,
    /// Nothing, and other liars as the nearest.
    Eclipse,
    /// Peers that have nothing as providers.
    Providers,
    /// Takes the request and never answers.
    Silent,
}

pub(super) struct Node {
    pub name: PeerName,
    pub is_dialable: bool,
    pub lie: Option<Lie>,
    /// Where it is on a map of 150 by 150 ms.
    at: (f64, f64),
    /// When it goes down or comes up again, in seconds; up before the first if `up_first`.
    toggles: Vec<f32>,
    up_first: bool,
}

/// All nodes, in the order of their places.
pub(super) struct World {
    pub conditions: Conditions,
    pub nodes: Vec<Node>,
    /// The first half of each place: enough to tell nodes apart.
    places: Vec<u128>,
    by_name: HashMap<PeerName, usize>,
    seed: u64,
    start: Instant,
}

fn half(digest: &[u8]) -> u128 {
    let first: [u8; 16] = digest[..16].try_into().expect("because a digest is longer");
    u128::from_be_bytes(first)
}

/// The place of a key.
pub(super) fn place_of(key: &RecordKey) -> u128 {
    half(&Sha256::digest(key.as_bytes()))
}

impl World {
    pub fn new(size: usize, conditions: Conditions, seed: u64) -> Self {
        let mut nodes: Vec<(u128, Node)> = (0..size as u64)
            .map(|n| {
                let digest = blake3::hash(&draw(seed, [0, n]).to_be_bytes());
                let bytes = [
                    &[0x00, 0x24, 0x08, 0x01, 0x12, 0x20],
                    &digest.as_bytes()[..],
                ];
                let bytes = bytes.concat();
                let name = PeerName::from_bytes(&bytes).expect("because 38 bytes make a name");
                let node = Node::new(name, n, &conditions, seed);
                (half(&Sha256::digest(&bytes)), node)
            })
            .collect();
        nodes.sort_by_key(|(place, _)| *place);
        let (places, nodes): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        let named = nodes.iter().enumerate();
        let by_name = named.map(|(n, node)| (node.name.clone(), n)).collect();
        Self {
            conditions,
            places,
            by_name,
            nodes,
            seed,
            start: Instant::now(),
        }
    }

    pub fn draw<const N: usize>(&self, parts: [u64; N]) -> u64 {
        draw(self.seed, parts)
    }

    /// Seconds since the simulation began.
    pub fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    pub fn index(&self, name: &PeerName) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Whether a request to the node can arrive now.
    pub fn is_reachable(&self, n: usize) -> bool {
        let node = &self.nodes[n];
        node.is_dialable && node.is_up(self.now()) && !self.is_killed(n)
    }

    /// Whether it went a moment ago.
    fn is_killed(&self, n: usize) -> bool {
        fraction(self.draw([3, n as u64])) < self.conditions.killed
    }

    /// An honest node that is up; it may be one that nobody can dial.
    pub fn some_live_node(&self, lookup: u64) -> usize {
        let tries = (0..).map(|t| (self.draw([4, lookup, t]) % self.nodes.len() as u64) as usize);
        let mut live = tries.filter(|n| {
            let node = &self.nodes[*n];
            node.lie.is_none() && node.is_up(self.now()) && !self.is_killed(*n)
        });
        live.next().expect("because some node is up")
    }

    /// Milliseconds to a node and back.
    pub fn round_trip_ms(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (self.nodes[a].at, self.nodes[b].at);
        6.0 + ((a.0 - b.0).powi(2) + (a.1 - b.1).powi(2)).sqrt()
    }

    /// Nodes whose places share the first `bits` bits with `place`.
    fn sharing(&self, place: u128, bits: u32) -> Range<usize> {
        let Some(rest) = 128_u32.checked_sub(bits).filter(|rest| *rest < 128) else {
            return 0..self.places.len();
        };
        let first = place >> rest << rest;
        let from = self.places.partition_point(|it| *it < first);
        let count = self.places[from..].partition_point(|it| it >> rest == place >> rest);
        from..from + count
    }

    /// The nodes nearest to `place` that fulfil `is_wanted`.
    pub fn nearest(
        &self,
        place: u128,
        count: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let mut bits = self.places.len().ilog2();
        loop {
            let range = self.sharing(place, bits);
            let mut found: Vec<usize> = range.filter(|n| is_wanted(*n)).collect();
            if found.len() >= count || bits == 0 {
                found.sort_unstable_by_key(|n| self.places[*n] ^ place);
                found.truncate(count);
                return found;
            }
            bits -= 1;
        }
    }

    /// The peers of a node's routing table that are nearest to `place`.
    ///
    /// A bucket has up to twenty peers that could be dialled when they were last seen, each up to an
    /// hour ago: some are gone meanwhile.
    pub fn closest_known(&self, of: usize, place: u128) -> Vec<usize> {
        let mut known = Vec::with_capacity(20 * 20);
        for bits in 0..128 {
            if self.sharing(self.places[of], bits).len() <= 1 {
                break;
            }
            let flipped = self.places[of] ^ (1_u128 << (127 - bits));
            self.bucket(
                of,
                u64::from(bits),
                self.sharing(flipped, bits + 1),
                &mut known,
            );
        }
        known.sort_unstable_by_key(|n| self.places[*n] ^ place);
        known.truncate(limits::PEERS);
        known
    }

    fn bucket(&self, of: usize, bits: u64, range: Range<usize>, known: &mut Vec<usize>) {
        let (now, before) = (self.now(), known.len());
        let was_seen = |n: usize| {
            let age = MAX_ENTRY_AGE * fraction(self.draw([5, of as u64, n as u64]));
            self.nodes[n].is_dialable && self.nodes[n].is_up(now - age)
        };
        if range.len() <= 2 * limits::PEERS {
            known.extend(range.filter(|n| was_seen(*n)).take(limits::PEERS));
            return;
        }
        for slot in 0..4 * limits::PEERS as u64 {
            let drawn = self.draw([6, of as u64, bits, slot]) % range.len() as u64;
            let n = range.start + drawn as usize;
            if was_seen(n) && !known[before..].contains(&n) {
                known.push(n);
            }
            if known.len() - before >= limits::PEERS {
                return;
            }
        }
    }

    /// Nodes in the order of their distance from `place`.
    pub fn sorted(&self, mut nodes: Vec<usize>, place: u128) -> Vec<usize> {
        nodes.sort_unstable_by_key(|n| self.places[*n] ^ place);
        nodes
    }

    /// Liars near `place`.
    pub fn liars_near(&self, place: u128) -> Vec<usize> {
        let is_liar = |n: usize| self.nodes[n].lie.is_some() && self.nodes[n].is_dialable;
        self.nearest(place, limits::PEERS, is_liar)
    }
}

impl Node {
    fn new(name: PeerName, n: u64, conditions: &Conditions, seed: u64) -> Self {
        let of = |what: u64| fraction(draw(seed, [7, n, what]));
        let lies = [
            Lie::Garbage,
            Lie::Outdated,
            Lie::Eclipse,
            Lie::Providers,
            Lie::Silent,
        ];
        let lie = lies[(draw(seed, [8, n]) % lies.len() as u64) as usize];
        let (mut toggles, mut at) = (Vec::new(), -PAST);
        let (up, down) = (conditions.up * 3_600.0, conditions.down * 3_600.0);
        let up_first = up == 0.0 || of(0) < up / (up + down);
        let mut is_up = up_first;
        while up > 0.0 && at < FUTURE {
            let mean = if is_up { up } else { down };
            at -= mean * (1.0 - of(10 + toggles.len() as u64)).ln();
            toggles.push(at as f32);
            is_up = !is_up;
        }
        Self {
            name,
            is_dialable: of(1) >= conditions.nat,
            lie: (of(2) < conditions.liars).then_some(lie),
            at: (150.0 * of(3), 150.0 * of(4)),
            toggles,
            up_first,
        }
    }

    fn toggled(&self, at: f64) -> usize {
        self.toggles
            .partition_point(|toggle| f64::from(*toggle) <= at)
    }

    pub fn is_up(&self, at: f64) -> bool {
        self.up_first == self.toggled(at).is_multiple_of(2)
    }

    /// Whether it has been up without a break; what it stored for others was in memory.
    pub fn is_up_since(&self, since: f64, now: f64) -> bool {
        self.is_up(now) && self.toggled(since) == self.toggled(now)
    }
}
