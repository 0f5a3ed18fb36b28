//! Reachability: whether other nodes can dial this one.
//!
//! Told by what happens: a node in the tables of others is dialled by them, every time they refresh
//! a table or look something up after a connection has ended. No node is asked to dial back: then each
//! would dial on demand of any stranger.

use std::time::Duration;

use crate::Reachability;

/// How long others have to dial a node that they know.
const TIME_TO_BE_DIALLED: Duration = Duration::from_secs(20 * 60);
/// Fewer peers than this may have no reason to.
const MIN_PEERS: usize = 3;

/// What is known of this node at one moment.
pub(super) struct Signs {
    pub up: Duration,
    pub known_peers: usize,
    /// Connections that others made from addresses of this kind of network.
    pub inbound: u64,
    /// Addresses that others are told.
    pub external: usize,
}

impl Signs {
    pub fn reachability(&self) -> Reachability {
        match self {
            Self { inbound: 1.., .. } => Reachability::Dialled,
            Self { external: 0, .. } => Reachability::NoAddress,
            Self {
                up, known_peers, ..
            } if *up >= TIME_TO_BE_DIALLED && *known_peers >= MIN_PEERS => Reachability::NotDialled,
            _ => Reachability::Unknown,
        }
    }
}

/// Says what an operator can do where nobody can dial the node.
pub(super) fn warn(reachability: Reachability) {
    match reachability {
        Reachability::NoAddress => tracing::warn!(
            "no address of this node can be told to others, so none can dial it: name the public \
             address and port in dht_external, such as /ip4/203.0.113.7/tcp/7335"
        ),
        Reachability::NotDialled => tracing::warn!(
            minutes = TIME_TO_BE_DIALLED.as_secs() / 60,
            "no other node has dialled this one: let TCP connections to the port of dht_listen in \
             (firewall, port forwarding of a router), and name the public address in dht_external"
        ),
        Reachability::Dialled => tracing::info!("other nodes can dial this one"),
        Reachability::Unknown => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(minutes: u64, known_peers: usize, inbound: u64, external: usize) -> Reachability {
        let up = Duration::from_secs(60 * minutes);
        let signs = Signs {
            up,
            known_peers,
            inbound,
            external,
        };
        signs.reachability()
    }

    #[test]
    fn a_node_that_was_dialled_can_be() {
        assert_eq!(signs(0, 0, 1, 0), Reachability::Dialled);
        assert_eq!(signs(99, 9, 7, 1), Reachability::Dialled);
    }

    #[test]
    fn a_node_without_an_address_to_tell_is_known_at_once() {
        assert_eq!(signs(0, 0, 0, 0), Reachability::NoAddress);
    }

    #[test]
    fn a_node_that_several_know_and_nobody_dials_is_told_after_a_while() {
        assert_eq!(signs(19, 9, 0, 1), Reachability::Unknown);
        assert_eq!(signs(99, 2, 0, 1), Reachability::Unknown);
        assert_eq!(signs(20, 3, 0, 1), Reachability::NotDialled);
    }
}
