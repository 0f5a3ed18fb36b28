//! The connection_limits counts, and forgets.

use libp2p::{
    core::ConnectedPoint,
    swarm::{DialError, ListenError},
};

use super::*;
use crate::kademlia::address;

/// Knocks at a connection_limits as the swarm does.
struct Street {
    connection_limits: ConnectionLimits,
    next: usize,
    made: HashMap<ConnectionId, (PeerId, ConnectedPoint)>,
}

fn place(text: &str) -> Multiaddr {
    text.parse().unwrap()
}

impl Street {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        Self::with(change, &[])
    }

    fn with(change: impl FnOnce(&mut Options), named: &[(PeerId, Multiaddr)]) -> Self {
        let mut options = Options::new([1; 32]);
        change(&mut options);
        let name = address::name(&PeerId::random()).unwrap();
        Self {
            connection_limits: ConnectionLimits::new(&options, named, Arc::new(Stats::new(name))),
            next: 0,
            made: HashMap::new(),
        }
    }

    fn id(&mut self) -> ConnectionId {
        self.next += 1;
        ConnectionId::new_unchecked(self.next)
    }

    fn knock(&mut self, from: &str) -> Option<ConnectionId> {
        let (id, here) = (self.id(), place("/ip4/127.0.0.1/tcp/1"));
        let connection_limits = &mut self.connection_limits;
        let admitted = connection_limits.handle_pending_inbound_connection(id, &here, &place(from));
        admitted.ok().map(|()| id)
    }

    /// Somebody comes in, if he is let.
    fn comes(&mut self, peer: PeerId, from: &str) -> Option<ConnectionId> {
        let (id, here, from) = (
            self.knock(from)?,
            place("/ip4/127.0.0.1/tcp/1"),
            place(from),
        );
        let connection_limits = &mut self.connection_limits;
        if connection_limits
            .handle_established_inbound_connection(id, peer, &here, &from)
            .is_err()
        {
            connection_limits.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
                local_addr: &here,
                send_back_addr: &from,
                error: &ListenError::Aborted,
                connection_id: id,
                peer_id: Some(peer),
            }));
            return None;
        }
        let endpoint = ConnectedPoint::Listener {
            local_addr: here,
            send_back_addr: from,
        };
        self.make(id, peer, endpoint);
        Some(id)
    }

    fn dial(&mut self) -> Option<ConnectionId> {
        let (id, role) = (self.id(), Endpoint::Dialer);
        let dialled =
            self.connection_limits
                .handle_pending_outbound_connection(id, None, &[], role);
        dialled.ok().map(|_| id)
    }

    fn dial_fails(&mut self, connection_id: ConnectionId) {
        self.connection_limits
            .on_swarm_event(FromSwarm::DialFailure(DialFailure {
                peer_id: None,
                error: &DialError::Aborted,
                connection_id,
            }));
    }

    /// We go to somebody, if we may.
    fn goes(&mut self, peer: PeerId, to: &str) -> Option<ConnectionId> {
        let (id, address) = (self.dial()?, place(to));
        let (role, port) = (Endpoint::Dialer, PortUse::Reuse);
        let connection_limits = &mut self.connection_limits;
        if connection_limits
            .handle_established_outbound_connection(id, peer, &address, role, port)
            .is_err()
        {
            self.dial_fails(id);
            return None;
        }
        let endpoint = ConnectedPoint::Dialer {
            address,
            role_override: role,
            port_use: port,
        };
        self.make(id, peer, endpoint);
        Some(id)
    }

    fn make(&mut self, connection_id: ConnectionId, peer_id: PeerId, endpoint: ConnectedPoint) {
        let made = ConnectionEstablished {
            peer_id,
            connection_id,
            endpoint: &endpoint,
            failed_addresses: &[],
            other_established: 0,
        };
        self.connection_limits
            .on_swarm_event(FromSwarm::ConnectionEstablished(made));
        self.made.insert(connection_id, (peer_id, endpoint));
    }

    fn leaves(&mut self, connection_id: ConnectionId) {
        let (peer_id, endpoint) = self.made.remove(&connection_id).unwrap();
        self.connection_limits
            .on_swarm_event(FromSwarm::ConnectionClosed(ConnectionClosed {
                peer_id,
                connection_id,
                endpoint: &endpoint,
                cause: None,
                remaining_established: 0,
            }));
    }
}

/// A public address of its own for everybody.
fn own(i: usize) -> String {
    format!("/ip4/1.1.{}.{}/tcp/999", i / 256, i % 256)
}

#[test]
fn nothing_is_left_of_those_who_came_and_went() {
    let mut street = Street::new(|_| {});
    for i in 0..1000 {
        let came = street.comes(PeerId::random(), &own(i)).unwrap();
        let went = street.goes(PeerId::random(), &own(i)).unwrap();
        let dialled = street.dial().unwrap();
        street.dial_fails(dialled);
        street.leaves(came);
        street.leaves(went);
    }
    assert_eq!(street.connection_limits.connections.len(), 0);
}

#[test]
fn those_who_come_leave_room_for_those_we_go_to() {
    let mut street = Street::new(|options| options.max_connections = 8);
    let came = (0..20).filter_map(|i| street.comes(PeerId::random(), &own(i)));
    let came: Vec<_> = came.collect();
    assert_eq!(came.len(), 6);
    let gone = (0..20).filter(|i| street.goes(PeerId::random(), &own(*i)).is_some());
    assert_eq!(gone.count(), 2);
    assert_eq!(
        street.connection_limits.connections.len(),
        8,
        "who is refused is forgotten"
    );
    street.leaves(came[0]);
    assert!(street.comes(PeerId::random(), &own(1)).is_some());
}

#[test]
fn one_peer_has_few_connections_whoever_made_them() {
    let mut street = Street::new(|_| {});
    let peer = PeerId::random();
    assert!(street.comes(peer, &own(1)).is_some());
    let ours = street.goes(peer, &own(1)).unwrap();
    assert!(street.comes(peer, &own(2)).is_none());
    assert!(street.goes(peer, &own(2)).is_none());
    street.leaves(ours);
    assert!(street.comes(peer, &own(2)).is_some());
}

#[test]
fn few_are_in_the_making_in_each_direction() {
    let mut street = Street::new(|options| options.max_pending_connections = 3);
    let knocked = (0..9).filter(|i| street.knock(&own(*i)).is_some());
    assert_eq!(knocked.count(), 3);
    let dialled: Vec<_> = (0..9).filter_map(|_| street.dial()).collect();
    assert_eq!(dialled.len(), 3);
    street.dial_fails(dialled[0]);
    assert!(street.dial().is_some());
}

#[test]
fn a_node_of_a_lan_lets_nobody_in_from_outside() {
    let mut lan = Street::new(|options| options.lan_only = true);
    assert!(lan.knock("/ip4/1.1.1.1/tcp/999").is_none());
    assert!(lan.knock("/ip4/127.0.0.1/tcp/999").is_some());
    let counters = lan.connection_limits.stats.status().counters;
    assert_eq!(counters.connections_refused_total, 1);
    let mut open = Street::new(|_| {});
    assert!(open.knock("/ip4/1.1.1.1/tcp/999").is_some());
}

#[test]
fn many_names_at_one_address_have_few_connections() {
    let mut street = Street::new(|_| {});
    for network in ["/ip4/9.9.9.9/tcp", "/ip6/2620:fe::fe/tcp"] {
        let came = (1..50).filter_map(|port| {
            let from = format!("{network}/{port}");
            street.comes(PeerId::random(), &from)
        });
        let came: Vec<_> = came.collect();
        assert_eq!(came.len(), 8);
        assert!(
            street
                .goes(PeerId::random(), &format!("{network}/1"))
                .is_none()
        );
        street.leaves(came[0]);
        assert!(
            street
                .goes(PeerId::random(), &format!("{network}/1"))
                .is_some()
        );
    }
    assert!(
        street.knock("/ip6/2620:fe::1:2/tcp/1").is_none(),
        "the same network"
    );
    assert!(street.knock("/ip6/2620:fe:0:1::fe/tcp/1").is_some());
    assert!(street.knock("/ip4/9.9.9.10/tcp/1").is_some());
    let counters = street.connection_limits.stats.status().counters;
    assert_eq!(counters.connections_refused_total, 2 * (49 - 8 + 1) + 1);
}

#[test]
fn those_that_only_knock_count_as_well() {
    let mut street = Street::new(|_| {});
    let knocked = (0..50).filter(|_| street.knock("/ip4/9.9.9.9/tcp/1").is_some());
    assert_eq!(knocked.count(), 8);
    assert!(street.knock("/ip4/9.9.9.10/tcp/1").is_some());
}

#[test]
fn within_a_lan_and_behind_a_proxy_many_share_an_address() {
    for lan_only in [true, false] {
        let mut street = Street::new(|options| options.lan_only = lan_only);
        for address in ["/ip4/127.0.0.1/tcp/1", "/ip4/172.17.0.1/tcp/1"] {
            let came = (0..40).filter(|_| street.comes(PeerId::random(), address).is_some());
            assert_eq!(came.count(), 40);
        }
    }
}

#[test]
fn whom_the_operator_named_is_let_in_however_many_are_at_its_address() {
    let (named, address) = (PeerId::random(), "/ip4/9.9.9.9/tcp/4001");
    let mut street = Street::with(|_| {}, &[(named, place(address))]);
    let came = (0..50).filter(|_| street.comes(PeerId::random(), address).is_some());
    assert_eq!(came.count(), 8);
    assert!(street.comes(named, address).is_some());
    assert!(street.goes(named, address).is_some());
}
