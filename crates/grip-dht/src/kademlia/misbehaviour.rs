//! Misbehaviour of members in tests: responses that are altered on their way out, and entries of the
//! routing table that nobody has checked.

use super::{
    Kademlia, address,
    codec::{Found, PeerAddresses},
    swarm_task::Command,
};
use crate::{LocalRecords, Peer, RecordKey, Response};

impl Kademlia {
    /// Puts a peer into the routing table, wherever it is said to be: every node that asks this one
    /// for the nearest peers is told of it.
    pub async fn learn(&self, peer: &Peer) {
        for address in &peer.addresses {
            let (Some(peer), Ok(address)) = (address::id(&peer.id), address.parse()) else {
                continue;
            };
            // A node that has stopped learns nothing.
            let _ = self.commands.send(Command::Learn { peer, address }).await;
        }
    }
}

/// What `local` says instead of what was found.
pub(super) fn altered(local: &dyn LocalRecords, key: &RecordKey, found: Found) -> Found {
    let response = local.alter(
        key,
        Response {
            value: found.value,
            providers: named(found.providers),
            closer: named(found.closer),
        },
    );
    Found {
        value: response.value,
        providers: on_the_wire(response.providers),
        closer: on_the_wire(response.closer),
    }
}

fn named(peers: Vec<PeerAddresses>) -> Vec<Peer> {
    let peer = |(id, addresses): PeerAddresses| {
        Some(Peer {
            id: address::name(&id)?,
            addresses: addresses.iter().map(ToString::to_string).collect(),
        })
    };
    peers.into_iter().filter_map(peer).collect()
}

fn on_the_wire(peers: Vec<Peer>) -> Vec<PeerAddresses> {
    let peer = |peer: Peer| {
        let addresses = peer.addresses.iter().filter_map(|text| text.parse().ok());
        Some((address::id(&peer.id)?, addresses.collect()))
    };
    peers.into_iter().filter_map(peer).collect()
}
