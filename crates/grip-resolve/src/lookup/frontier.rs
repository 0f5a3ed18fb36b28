//! Peers of one lookup, and the order in which they get requests.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use grip_dht::{Distance, Peer, PeerName, RecordKey, Response, limits};
use tokio::time::Instant;

use crate::Options;

/// Peers of one lookup that its roots share evenly, each with its own part; further ones of a root
/// are ignored. First come in all would let one liar that names many displace those of all others.
const MAX_KNOWN: usize = 256;
/// The least part of a root: itself, and all that one full response names.
const MIN_KNOWN_PER_ROOT: usize = 1 + 2 * limits::PEERS;
/// Most requests to peers that only one root led to.
const MAX_PER_ROOT: u32 = 8;
/// Most roots kept for one peer: two make it independent.
const MAX_ROOTS: usize = 4;
/// Most addresses of one peer that one root led to, so that a stranger's do not keep others out.
const MAX_ADDRESSES_PER_ROOT: usize = limits::ADDRESSES / MAX_ROOTS;

/// The peers of one lookup with the status of each.
pub(super) struct Frontier {
    record: RecordKey,
    own: PeerName,
    known: HashMap<PeerName, Known>,
    /// Number of peers from our own routing table.
    roots: usize,
    alpha: usize,
    /// By root, what it led to.
    led: HashMap<PeerName, Led>,
}

#[derive(Default)]
struct Led {
    /// Peers that count as its own: it was the first with room to lead to them.
    known: usize,
    /// Requests to peers it led to, in all and in flight.
    sent: u32,
    in_flight: usize,
}

struct Known {
    /// With the addresses of all who named it.
    peer: Peer,
    /// For each address that others named, the root that led to it.
    address_roots: Vec<PeerName>,
    distance: Distance,
    /// Peers of our own routing table that led to it; itself if it is one. Sorted.
    roots: Vec<PeerName>,
    is_root: bool,
    is_provider: bool,
    depth: u32,
    status: PeerStatus,
    tries: u32,
    /// The root that its request is charged to.
    charged: Option<PeerName>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerStatus {
    New,
    InFlight,
    RetryAt(Instant),
    RetryDue,
    Responded,
    /// Its breaker is open, or all retries failed.
    GivenUp,
}

/// The peer that gets the next request.
pub(super) struct Next {
    pub peer: Peer,
    pub is_retry: bool,
}

impl Frontier {
    /// `known` are the peers that this node knows. Providers among them that are not in the routing
    /// table share one root: this node.
    pub fn new(record: RecordKey, own: &PeerName, known: Response, options: &Options) -> Self {
        let mut frontier = Self {
            record,
            own: own.clone(),
            known: HashMap::new(),
            roots: 0,
            alpha: options.alpha.max(1),
            led: HashMap::new(),
        };
        for peer in known.closer.into_iter().take(limits::PEERS) {
            let roots = vec![peer.id.clone()];
            frontier.add(peer, roots, 1, false);
        }
        for known in frontier.known.values_mut() {
            known.is_root = true;
        }
        frontier.roots = frontier.known.len();
        for peer in known.providers.into_iter().take(limits::PEERS) {
            frontier.add(peer, vec![own.clone()], 1, true);
        }
        frontier
    }

    /// The best peer that may get a request: providers first, then the nearest; retries come after
    /// all others, and are never a hedge.
    pub fn next(&self, is_hedge: bool) -> Option<Next> {
        let candidates = self.known.values().filter(|known| {
            let is_due = known.status == PeerStatus::RetryDue && !is_hedge;
            (known.status == PeerStatus::New || is_due) && self.payer(known).is_some()
        });
        let best = candidates.min_by_key(|known| {
            let is_retry = known.status == PeerStatus::RetryDue;
            (is_retry, !known.is_provider, known.distance)
        })?;
        Some(Next {
            peer: best.peer.clone(),
            is_retry: best.status == PeerStatus::RetryDue,
        })
    }

    /// A root that may be charged with one more request; a root pays for itself.
    fn payer(&self, known: &Known) -> Option<PeerName> {
        if known.is_root {
            return Some(known.peer.id.clone());
        }
        // With three roots or more, each may occupy one of the first requests and no more.
        let at_once = self.alpha.div_ceil(self.roots.clamp(1, self.alpha));
        let has_room = |root: &&PeerName| {
            self.led
                .get(*root)
                .is_none_or(|led| led.sent < MAX_PER_ROOT && led.in_flight < at_once)
        };
        known.roots.iter().find(has_room).cloned()
    }

    pub fn sent(&mut self, peer: &PeerName) {
        let payer = self.known.get(peer).and_then(|known| self.payer(known));
        let Some(known) = self.known.get_mut(peer) else {
            return;
        };
        known.status = PeerStatus::InFlight;
        known.tries += 1;
        if let Some(payer) = payer.filter(|_| !known.is_root) {
            let led = self.led.entry(payer.clone()).or_default();
            led.sent += 1;
            led.in_flight += 1;
            known.charged = Some(payer);
        }
    }

    fn ended(&mut self, peer: &PeerName, status: PeerStatus) {
        let Some(known) = self.known.get_mut(peer) else {
            return;
        };
        known.status = status;
        if let Some(payer) = known.charged.take()
            && let Some(led) = self.led.get_mut(&payer)
        {
            led.in_flight -= 1;
        }
    }

    /// Notes a response, and returns the roots that led to the peer.
    pub fn responded(&mut self, peer: &PeerName) -> Vec<PeerName> {
        self.ended(peer, PeerStatus::Responded);
        let known = self.known.get(peer);
        known.map(|known| known.roots.clone()).unwrap_or_default()
    }

    pub fn peer(&self, peer: &PeerName) -> Option<&Peer> {
        self.known.get(peer).map(|known| &known.peer)
    }

    pub fn depth(&self, peer: &PeerName) -> u32 {
        self.known.get(peer).map_or(0, |known| known.depth)
    }

    pub fn is_provider(&self, peer: &PeerName) -> bool {
        self.known.get(peer).is_some_and(|known| known.is_provider)
    }

    /// Whether a request to a provider is in flight.
    pub fn awaits_provider(&self) -> bool {
        let is_awaited = |it: &Known| it.is_provider && it.status == PeerStatus::InFlight;
        self.known.values().any(is_awaited)
    }

    pub fn give_up(&mut self, peer: &PeerName) {
        self.ended(peer, PeerStatus::GivenUp);
    }

    /// Whether all peers that got a request have responded.
    pub fn all_responded(&self) -> bool {
        let has_responded = |known: &Known| match known.status {
            PeerStatus::New | PeerStatus::Responded => true,
            PeerStatus::InFlight
            | PeerStatus::RetryAt(_)
            | PeerStatus::RetryDue
            | PeerStatus::GivenUp => false,
        };
        self.known.values().all(has_responded)
    }

    /// Schedules a retry at `at`, unless there were `retries` of them.
    pub fn retry(&mut self, peer: &PeerName, at: Instant, retries: u32) {
        let tries = self.known.get(peer).map_or(u32::MAX, |known| known.tries);
        let status = if tries <= retries {
            PeerStatus::RetryAt(at)
        } else {
            PeerStatus::GivenUp
        };
        self.ended(peer, status);
    }

    /// When the next retry is due.
    pub fn retry_at(&self) -> Option<Instant> {
        let times = self.known.values().filter_map(|known| match known.status {
            PeerStatus::RetryAt(at) => Some(at),
            _ => None,
        });
        times.min()
    }

    pub fn wake(&mut self, now: Instant) {
        for known in self.known.values_mut() {
            if matches!(known.status, PeerStatus::RetryAt(at) if at <= now) {
                known.status = PeerStatus::RetryDue;
            }
        }
    }

    /// Adds the peers that `by` has named.
    pub fn learn(&mut self, by: &PeerName, named: Response) {
        let Some(source) = self.known.get(by) else {
            return;
        };
        let (roots, depth) = (source.roots.clone(), source.depth + 1);
        let providers = named.providers.into_iter().take(limits::PEERS);
        for peer in providers {
            self.add(peer, roots.clone(), depth, true);
        }
        let closer = named.closer.into_iter().take(limits::PEERS);
        for peer in closer {
            self.add(peer, roots.clone(), depth, false);
        }
    }

    fn add(&mut self, peer: Peer, roots: Vec<PeerName>, depth: u32, is_provider: bool) {
        if peer.id == self.own {
            return;
        }
        if let Some(known) = self.known.get_mut(&peer.id) {
            known.is_provider |= is_provider;
            known.merge_addresses(peer.addresses, &roots, &self.own);
            if !known.is_root {
                known.lead(roots);
                known.depth = known.depth.min(depth);
            }
            return;
        }
        let Some(root) = roots.iter().find(|root| self.has_room(root)) else {
            return;
        };
        self.led.entry(root.clone()).or_default().known += 1;
        let mut known = Known {
            distance: self.record.distance(&peer.id),
            address_roots: Vec::new(),
            is_root: false,
            is_provider,
            depth,
            status: PeerStatus::New,
            tries: 0,
            charged: None,
            roots: Vec::new(),
            peer: Peer {
                id: peer.id,
                addresses: Vec::new(),
            },
        };
        known.merge_addresses(peer.addresses, &roots, &self.own);
        known.roots = roots;
        self.known.insert(known.peer.id.clone(), known);
    }

    /// Whether `root` may lead to one more peer.
    fn has_room(&self, root: &PeerName) -> bool {
        let most = (MAX_KNOWN / self.roots.max(1)).max(MIN_KNOWN_PER_ROOT);
        self.led.get(root).is_none_or(|led| led.known < most)
    }

    /// The providers, those that most roots led to first.
    pub fn into_providers(self) -> Vec<Peer> {
        let mut providers: BTreeMap<_, Peer> = BTreeMap::new();
        for known in self.known.into_values().filter(|known| known.is_provider) {
            let place = (Reverse((known.is_root, known.roots.len())), known.distance);
            providers.insert(place, known.peer);
        }
        providers.into_values().take(limits::PEERS).collect()
    }
}

impl Known {
    /// Adds addresses that peers behind `roots` named; a peer without a route gets another try with
    /// a new one. This node's own table and the peer itself may name as many as a peer may have.
    fn merge_addresses(&mut self, addresses: Vec<String>, roots: &[PeerName], own: &PeerName) {
        for address in addresses {
            let known = &mut self.peer.addresses;
            if known.len() >= limits::ADDRESSES || known.contains(&address) {
                continue;
            }
            let has_room = |root: &&PeerName| {
                let is_own = *root == own || **root == self.peer.id;
                let named = self.address_roots.iter().filter(|it| it == root);
                is_own || named.count() < MAX_ADDRESSES_PER_ROOT
            };
            let Some(root) = roots.iter().find(has_room) else {
                return;
            };
            self.address_roots.push(root.clone());
            known.push(address);
            if self.is_without_route() {
                self.status = PeerStatus::New;
                self.tries = 0;
            }
        }
    }

    /// Whether it got no answer so far, and will not get a request soon.
    fn is_without_route(&self) -> bool {
        use PeerStatus::{GivenUp, RetryAt, RetryDue};
        matches!(self.status, GivenUp | RetryAt(_) | RetryDue)
    }

    fn lead(&mut self, roots: Vec<PeerName>) {
        for root in roots {
            if self.roots.len() < MAX_ROOTS && !self.roots.contains(&root) {
                self.roots.push(root);
            }
        }
        self.roots.sort();
    }
}
