//! Whom to ask next.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use grip_dht::{Distance, Peer, PeerName, RecordKey, limits};
use tokio::time::Instant;

use super::question::Named;
use crate::Options;

/// Peers remembered in one walk; further ones are not taken in.
const MAX_KNOWN: usize = 256;
/// Questions to those whom only one voice has named.
const MAX_PER_VOICE: u32 = 8;
/// Roots remembered for one peer: two make it nobody's creature.
const MAX_ROOTS: usize = 4;

/// The peers of one walk and how it stands with each.
pub(super) struct Frontier {
    record: RecordKey,
    own: PeerName,
    known: HashMap<PeerName, Known>,
    /// Peers of our own table: where voices begin.
    roots: usize,
    alpha: usize,
    /// By root: questions to those it led to, in all and under way.
    led: HashMap<PeerName, Led>,
}

#[derive(Default)]
struct Led {
    asked: u32,
    under_way: usize,
}

struct Known {
    peer: Peer,
    distance: Distance,
    /// Who of our own table led to it; itself if it is in there. Sorted.
    roots: Vec<PeerName>,
    is_root: bool,
    is_provider: bool,
    depth: u32,
    standing: Standing,
    tries: u32,
    /// The root that its question is charged to.
    charged: Option<PeerName>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Fresh,
    UnderWay,
    /// To be asked again from then on.
    Again(Instant),
    /// To be asked again now.
    Due,
    Answered,
    /// Left alone, or asked as often as it may be, and no answer came.
    GivenUp,
}

/// Who is asked next.
pub(super) struct Next {
    pub peer: Peer,
    pub is_again: bool,
}

impl Frontier {
    /// `here` is whom we know ourselves. Those who told us that they have the thing and are not in
    /// our table are one voice together.
    pub fn new(record: RecordKey, own: &PeerName, here: Named, options: &Options) -> Self {
        let mut frontier = Self {
            record,
            own: own.clone(),
            known: HashMap::new(),
            roots: 0,
            alpha: options.alpha.max(1),
            led: HashMap::new(),
        };
        for peer in here.closer.into_iter().take(limits::PEERS) {
            let roots = vec![peer.id.clone()];
            frontier.add(peer, roots, 1, false);
        }
        for known in frontier.known.values_mut() {
            known.is_root = true;
        }
        frontier.roots = frontier.known.len();
        for peer in here.providers.into_iter().take(limits::PEERS) {
            frontier.add(peer, vec![own.clone()], 1, true);
        }
        frontier
    }

    pub fn record(&self) -> &RecordKey {
        &self.record
    }

    /// The best peer that may be asked: providers first, then the nearest; those to be asked again
    /// come after all others, and a hedge goes to none of them.
    pub fn next(&self, is_hedge: bool) -> Option<Next> {
        let candidates = self.known.values().filter(|known| {
            let is_due = known.standing == Standing::Due && !is_hedge;
            (known.standing == Standing::Fresh || is_due) && self.payer(known).is_some()
        });
        let best = candidates.min_by_key(|known| {
            let is_again = known.standing == Standing::Due;
            (is_again, !known.is_provider, known.distance)
        })?;
        Some(Next {
            peer: best.peer.clone(),
            is_again: best.standing == Standing::Due,
        })
    }

    /// The root that has room for one more question to those it led to; a root pays for itself.
    fn payer(&self, known: &Known) -> Option<PeerName> {
        if known.is_root {
            return Some(known.peer.id.clone());
        }
        // With three roots or more, each may hold up one of the first questions and no more.
        let at_once = self.alpha.div_ceil(self.roots.clamp(1, self.alpha));
        let has_room = |root: &&PeerName| {
            self.led
                .get(*root)
                .is_none_or(|led| led.asked < MAX_PER_VOICE && led.under_way < at_once)
        };
        known.roots.iter().find(has_room).cloned()
    }

    pub fn asked(&mut self, peer: &PeerName) {
        let payer = self.known.get(peer).and_then(|known| self.payer(known));
        let Some(known) = self.known.get_mut(peer) else {
            return;
        };
        known.standing = Standing::UnderWay;
        known.tries += 1;
        if let Some(payer) = payer.filter(|_| !known.is_root) {
            let led = self.led.entry(payer.clone()).or_default();
            led.asked += 1;
            led.under_way += 1;
            known.charged = Some(payer);
        }
    }

    fn ended(&mut self, peer: &PeerName, standing: Standing) {
        let Some(known) = self.known.get_mut(peer) else {
            return;
        };
        known.standing = standing;
        if let Some(payer) = known.charged.take()
            && let Some(led) = self.led.get_mut(&payer)
        {
            led.under_way -= 1;
        }
    }

    /// It has answered; says which roots led to it.
    pub fn answered(&mut self, peer: &PeerName) -> Vec<PeerName> {
        self.ended(peer, Standing::Answered);
        let known = self.known.get(peer);
        known.map(|known| known.roots.clone()).unwrap_or_default()
    }

    pub fn depth(&self, peer: &PeerName) -> u32 {
        self.known.get(peer).map_or(0, |known| known.depth)
    }

    /// Whether it is said to have the thing itself.
    pub fn is_provider(&self, peer: &PeerName) -> bool {
        self.known.get(peer).is_some_and(|known| known.is_provider)
    }

    /// Whether somebody is being asked who is said to have the thing itself.
    pub fn awaits_provider(&self) -> bool {
        let is_awaited = |it: &Known| it.is_provider && it.standing == Standing::UnderWay;
        self.known.values().any(is_awaited)
    }

    pub fn give_up(&mut self, peer: &PeerName) {
        self.ended(peer, Standing::GivenUp);
    }

    /// Whether everybody who was to be asked has answered.
    pub fn is_heard_out(&self) -> bool {
        let has_answered = |known: &Known| match known.standing {
            Standing::Fresh | Standing::Answered => true,
            Standing::UnderWay | Standing::Again(_) | Standing::Due | Standing::GivenUp => false,
        };
        self.known.values().all(has_answered)
    }

    /// It is asked again at `at`, unless it was so `retries` times.
    pub fn again(&mut self, peer: &PeerName, at: Instant, retries: u32) {
        let tries = self.known.get(peer).map_or(u32::MAX, |known| known.tries);
        let standing = match tries <= retries {
            true => Standing::Again(at),
            false => Standing::GivenUp,
        };
        self.ended(peer, standing);
    }

    /// When the next one is to be asked again.
    pub fn retry_at(&self) -> Option<Instant> {
        let times = self
            .known
            .values()
            .filter_map(|known| match known.standing {
                Standing::Again(at) => Some(at),
                _ => None,
            });
        times.min()
    }

    pub fn wake(&mut self, now: Instant) {
        for known in self.known.values_mut() {
            if matches!(known.standing, Standing::Again(at) if at <= now) {
                known.standing = Standing::Due;
            }
        }
    }

    /// Takes in whom `by` has named.
    pub fn learn(&mut self, by: &PeerName, named: Named) {
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
            if !known.is_root {
                known.lead(roots);
                known.depth = known.depth.min(depth);
            }
            return;
        }
        if self.known.len() >= MAX_KNOWN {
            return;
        }
        let known = Known {
            distance: self.record.distance(&peer.id),
            roots,
            is_root: false,
            is_provider,
            depth,
            standing: Standing::Fresh,
            tries: 0,
            charged: None,
            peer,
        };
        self.known.insert(known.peer.id.clone(), known);
    }

    /// Those who are said to have the thing, led to by most roots first.
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
    fn lead(&mut self, roots: Vec<PeerName>) {
        for root in roots {
            if self.roots.len() < MAX_ROOTS && !self.roots.contains(&root) {
                self.roots.push(root);
            }
        }
        self.roots.sort();
    }
}
