//! Peers of the DHT that followed relays name in their documents.
//!
//! Strangers' words: a few short texts of each relay. Which of them may be dialled is decided where
//! that is done.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde_json::Value;

use crate::RelayUrl;

/// Most peers of one relay, and the longest text of one.
const MAX_PER_RELAY: usize = 4;
const MAX_BYTES: usize = 512;
/// Most relays that are remembered; at the bound the first in order makes room.
const MAX_RELAYS: usize = 256;

#[derive(Default)]
pub(crate) struct NamedPeers(Mutex<BTreeMap<RelayUrl, Vec<String>>>);

impl NamedPeers {
    /// Keeps what a relay says now; nothing takes the place of what it said before.
    pub(crate) fn note(&self, relay: &RelayUrl, named: &[Value]) {
        let texts = named.iter().filter_map(Value::as_str);
        let texts = texts.filter(|text| text.len() <= MAX_BYTES);
        let texts: Vec<String> = texts.take(MAX_PER_RELAY).map(str::to_owned).collect();
        let mut peers = self.0.lock();
        if texts.is_empty() {
            peers.remove(relay);
            return;
        }
        if peers.len() >= MAX_RELAYS && !peers.contains_key(relay) {
            peers.pop_first();
        }
        peers.insert(relay.clone(), texts);
    }

    /// The first peer of every relay, then the second: none keeps others out.
    pub(crate) fn all(&self) -> Vec<String> {
        let peers = self.0.lock();
        let nth = |n: usize| peers.values().filter_map(move |named| named.get(n));
        (0..MAX_PER_RELAY).flat_map(nth).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn relay(n: usize) -> RelayUrl {
        RelayUrl::parse(&format!("wss://r{n}.example")).unwrap()
    }

    #[test]
    fn every_relay_has_the_same_part_and_what_it_says_is_short() {
        let peers = NamedPeers::default();
        let many: Vec<Value> = (0..9).map(|n| json!(format!("a{n}"))).collect();
        peers.note(&relay(1), &many);
        peers.note(&relay(2), &[json!(7), json!("x".repeat(600)), json!("b0")]);
        assert_eq!(peers.all(), ["a0", "b0", "a1", "a2", "a3"]);
        peers.note(&relay(1), &[]);
        assert_eq!(peers.all(), ["b0"]);
    }

    #[test]
    fn the_relays_that_are_remembered_are_bounded() {
        let peers = NamedPeers::default();
        for n in 0..2 * MAX_RELAYS {
            peers.note(&relay(n), &[json!("x")]);
        }
        assert_eq!(peers.all().len(), MAX_RELAYS);
    }
}
