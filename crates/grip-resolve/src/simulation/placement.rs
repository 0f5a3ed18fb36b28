//! Places of the records of one repository.

use std::collections::HashMap;

use bytes::Bytes;
use grip_dht::{RecordKey, limits};

use super::{
    Repository,
    hash::fraction,
    world::{World, place_of},
};

/// How often everything is published again, and for how long records are kept, in seconds.
const INTERVAL: f64 = 8.0 * 3_600.0;
const ROUNDS: u32 = 3;

pub(super) struct Placement {
    pub place: u128,
    pub publisher: usize,
    /// The manifest that each holder has.
    held: HashMap<usize, Bytes>,
    pub newest: Bytes,
    pub before: Bytes,
}

impl Placement {
    /// The repository was published at some time of the last eight hours, and eight hours and
    /// sixteen before that; it changed at some time of the last day.
    pub fn new(world: &World, key: &RecordKey, number: u64, repository: &Repository) -> Self {
        let (now, place) = (world.now(), place_of(key));
        let of = |what: u64| fraction(world.draw([20, number, what]));
        let newest = repository.newest.bytes().clone();
        let before = repository.before.bytes().clone();
        // A change is published at once.
        let changed = now - 24.0 * 3_600.0 * of(1);
        let scan = now - INTERVAL * of(2);
        let rounds = (0..ROUNDS).map(|round| scan - INTERVAL * f64::from(round));
        let mut held = HashMap::new();
        for at in rounds.chain([changed]) {
            let value = if at >= changed { &newest } else { &before };
            let could_store = |n: usize| {
                let node = &world.nodes[n];
                node.is_dialable && node.is_up(at)
            };
            for holder in world.nearest(place, limits::PEERS, could_store) {
                let node = &world.nodes[holder];
                let what = [21, number, holder as u64, at.to_bits()];
                let is_lost = fraction(world.draw(what)) < 2.0 * world.conditions.loss;
                if node.lie.is_some() || is_lost || !node.is_up_since(at, now) {
                    continue;
                }
                let kept = held.entry(holder).or_insert_with(|| value.clone());
                if *value == newest {
                    *kept = value.clone();
                }
            }
        }
        let publisher = (world.draw([22, number]) % world.nodes.len() as u64) as usize;
        Self {
            place,
            publisher,
            held,
            newest,
            before,
        }
    }

    /// The value that an honest node has.
    pub fn value(&self, n: usize) -> Option<Bytes> {
        if n == self.publisher {
            return Some(self.newest.clone());
        }
        self.held.get(&n).cloned()
    }

    pub fn is_holder(&self, n: usize) -> bool {
        self.held.contains_key(&n)
    }
}
