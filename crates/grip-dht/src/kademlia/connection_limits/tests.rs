//! Limits per direction, peer and host.

use libp2p::{
    core::ConnectedPoint,
    swarm::{DialError, ListenError},
};

use super::*;
use crate::kademlia::address::name;

/// A swarm that connects through the limits.
struct FakeSwarm {
    limits: ConnectionLimits,
    next: usize,
    made: HashMap<ConnectionId, (PeerId, ConnectedPoint)>,
}

fn address(text: &str) -> Multiaddr {
    text.parse().unwrap()
}

impl FakeSwarm {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        Self::with(change, &[])
    }

    fn with(change: impl FnOnce(&mut Options), named: &[(PeerId, Multiaddr)]) -> Self {
        let mut options = Options::new([1; 32]);
        change(&mut options);
        let name = name(&PeerId::random()).unwrap();
        Self {
            limits: ConnectionLimits::new(&options, named, Arc::new(Stats::new(name))),
            next: 0,
            made: HashMap::new(),
        }
    }

    fn id(&mut self) -> ConnectionId {
        self.next += 1;
        ConnectionId::new_unchecked(self.next)
    }

    fn pending(&mut self, from: &str) -> Option<ConnectionId> {
        let (id, here) = (self.id(), address("/ip4/127.0.0.1/tcp/1"));
        let limits = &mut self.limits;
        let admitted = limits.handle_pending_inbound_connection(id, &here, &address(from));
        admitted.ok().map(|()| id)
    }

    /// A peer connects, if it may.
    fn accept(&mut self, peer: PeerId, from: &str) -> Option<ConnectionId> {
        let (id, here, from) = (
            self.pending(from)?,
            address("/ip4/127.0.0.1/tcp/1"),
            address(from),
        );
        let limits = &mut self.limits;
        if limits
            .handle_established_inbound_connection(id, peer, &here, &from)
            .is_err()
        {
            limits.on_swarm_event(FromSwarm::ListenFailure(ListenFailure {
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
        self.establish(id, peer, endpoint);
        Some(id)
    }

    fn dial(&mut self) -> Option<ConnectionId> {
        let (id, role) = (self.id(), Endpoint::Dialer);
        let dialled = self
            .limits
            .handle_pending_outbound_connection(id, None, &[], role);
        dialled.ok().map(|_| id)
    }

    fn dial_fails(&mut self, connection_id: ConnectionId) {
        self.limits
            .on_swarm_event(FromSwarm::DialFailure(DialFailure {
                peer_id: None,
                error: &DialError::Aborted,
                connection_id,
            }));
    }

    /// We connect to a peer, if we may.
    fn connect(&mut self, peer: PeerId, to: &str) -> Option<ConnectionId> {
        let (id, address) = (self.dial()?, address(to));
        let (role, port) = (Endpoint::Dialer, PortUse::Reuse);
        let limits = &mut self.limits;
        if limits
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
        self.establish(id, peer, endpoint);
        Some(id)
    }

    fn establish(
        &mut self,
        connection_id: ConnectionId,
        peer_id: PeerId,
        endpoint: ConnectedPoint,
    ) {
        let made = ConnectionEstablished {
            peer_id,
            connection_id,
            endpoint: &endpoint,
            failed_addresses: &[],
            other_established: 0,
        };
        self.limits
            .on_swarm_event(FromSwarm::ConnectionEstablished(made));
        self.made.insert(connection_id, (peer_id, endpoint));
    }

    fn close(&mut self, connection_id: ConnectionId) {
        let (peer_id, endpoint) = self.made.remove(&connection_id).unwrap();
        self.limits
            .on_swarm_event(FromSwarm::ConnectionClosed(ConnectionClosed {
                peer_id,
                connection_id,
                endpoint: &endpoint,
                cause: None,
                remaining_established: 0,
            }));
    }
}

/// A public address of its own for each peer.
fn own(i: usize) -> String {
    format!("/ip4/1.1.{}.{}/tcp/999", i / 256, i % 256)
}

#[test]
fn closed_connections_are_not_counted() {
    let mut swarm = FakeSwarm::new(|_| {});
    for i in 0..1000 {
        let came = swarm.accept(PeerId::random(), &own(i)).unwrap();
        let went = swarm.connect(PeerId::random(), &own(i)).unwrap();
        let dialled = swarm.dial().unwrap();
        swarm.dial_fails(dialled);
        swarm.close(came);
        swarm.close(went);
    }
    assert_eq!(swarm.limits.connections.len(), 0);
}

#[test]
fn incoming_connections_leave_room_for_our_own() {
    let mut swarm = FakeSwarm::new(|options| options.max_connections = 8);
    let came = (0..20).filter_map(|i| swarm.accept(PeerId::random(), &own(i)));
    let came: Vec<_> = came.collect();
    assert_eq!(came.len(), 6);
    let gone = (0..20).filter(|i| swarm.connect(PeerId::random(), &own(*i)).is_some());
    assert_eq!(gone.count(), 2);
    assert_eq!(
        swarm.limits.connections.len(),
        8,
        "refused connections are not counted"
    );
    swarm.close(came[0]);
    assert!(swarm.accept(PeerId::random(), &own(1)).is_some());
}

#[test]
fn hosts_with_many_connections_make_room_for_others_when_all_places_are_taken() {
    let mut swarm = FakeSwarm::new(|_| {});
    let crowded = (0..24).flat_map(|i| (0..8).map(move |_| own(i)));
    let came = crowded.filter(|from| swarm.accept(PeerId::random(), from).is_some());
    assert_eq!(came.count(), 192);
    // Every further host finds room, until each has one.
    let others = (24..400).filter(|i| swarm.accept(PeerId::random(), &own(*i)).is_some());
    assert_eq!(others.count(), 192 - 24);
    assert_eq!(swarm.limits.connections.len(), 192);
    let mut closed = 0;
    let mut cx = Context::from_waker(std::task::Waker::noop());
    while let Poll::Ready(ToSwarm::CloseConnection { .. }) = swarm.limits.poll(&mut cx) {
        closed += 1;
    }
    assert_eq!(closed, 192 - 24);
    assert!(swarm.accept(PeerId::random(), &own(0)).is_none());
}

#[test]
fn a_configured_peer_finds_room_when_all_places_are_taken() {
    let (named, from) = (PeerId::random(), "/ip4/9.9.9.9/tcp/4001");
    let mut swarm = FakeSwarm::with(|_| {}, &[(named, address(from))]);
    let came = (0..400).filter(|i| swarm.accept(PeerId::random(), &own(*i)).is_some());
    assert_eq!(came.count(), 192);
    assert!(swarm.accept(named, from).is_some());
}

#[test]
fn connections_with_one_peer_are_limited_in_both_directions_together() {
    let mut swarm = FakeSwarm::new(|_| {});
    let peer = PeerId::random();
    assert!(swarm.accept(peer, &own(1)).is_some());
    let ours = swarm.connect(peer, &own(1)).unwrap();
    assert!(swarm.accept(peer, &own(2)).is_none());
    assert!(swarm.connect(peer, &own(2)).is_none());
    swarm.close(ours);
    assert!(swarm.accept(peer, &own(2)).is_some());
}

#[test]
fn pending_connections_are_limited_in_each_direction() {
    let mut swarm = FakeSwarm::new(|options| options.max_pending_connections = 3);
    let knocked = (0..9).filter(|i| swarm.pending(&own(*i)).is_some());
    assert_eq!(knocked.count(), 3);
    let dialled: Vec<_> = (0..9).filter_map(|_| swarm.dial()).collect();
    assert_eq!(dialled.len(), 3);
    swarm.dial_fails(dialled[0]);
    assert!(swarm.dial().is_some());
}

#[test]
fn a_node_of_a_lan_refuses_connections_from_outside() {
    let mut lan = FakeSwarm::new(|options| options.lan_only = true);
    assert!(lan.pending("/ip4/1.1.1.1/tcp/999").is_none());
    assert!(lan.pending("/ip4/127.0.0.1/tcp/999").is_some());
    let counters = lan.limits.stats.status().counters;
    assert_eq!(counters.connections_refused_total, 1);
    let mut open = FakeSwarm::new(|_| {});
    assert!(open.pending("/ip4/1.1.1.1/tcp/999").is_some());
}

#[test]
fn connections_with_one_host_are_limited_whatever_the_names() {
    let mut swarm = FakeSwarm::new(|_| {});
    for network in ["/ip4/9.9.9.9/tcp", "/ip6/2620:fe::fe/tcp"] {
        let came = (1..50).filter_map(|port| {
            let from = format!("{network}/{port}");
            swarm.accept(PeerId::random(), &from)
        });
        let came: Vec<_> = came.collect();
        assert_eq!(came.len(), 8);
        assert!(
            swarm
                .connect(PeerId::random(), &format!("{network}/1"))
                .is_none()
        );
        swarm.close(came[0]);
        assert!(
            swarm
                .connect(PeerId::random(), &format!("{network}/1"))
                .is_some()
        );
    }
    assert!(
        swarm.pending("/ip6/2620:fe::1:2/tcp/1").is_none(),
        "the same network"
    );
    assert!(swarm.pending("/ip6/2620:fe:0:1::fe/tcp/1").is_some());
    assert!(swarm.pending("/ip4/9.9.9.10/tcp/1").is_some());
    let counters = swarm.limits.stats.status().counters;
    assert_eq!(counters.connections_refused_total, 2 * (49 - 8 + 1) + 1);
}

#[test]
fn pending_connections_count_for_their_host() {
    let mut swarm = FakeSwarm::new(|_| {});
    let knocked = (0..50).filter(|_| swarm.pending("/ip4/9.9.9.9/tcp/1").is_some());
    assert_eq!(knocked.count(), 8);
    assert!(swarm.pending("/ip4/9.9.9.10/tcp/1").is_some());
}

#[test]
fn within_a_lan_and_behind_a_proxy_many_share_an_address() {
    for lan_only in [true, false] {
        let mut swarm = FakeSwarm::new(|options| options.lan_only = lan_only);
        for address in ["/ip4/127.0.0.1/tcp/1", "/ip4/172.17.0.1/tcp/1"] {
            let came = (0..40).filter(|_| swarm.accept(PeerId::random(), address).is_some());
            assert_eq!(came.count(), 40);
        }
    }
}

#[test]
fn configured_peers_are_exempt_from_the_limit_of_their_host() {
    let (named, from) = (PeerId::random(), "/ip4/9.9.9.9/tcp/4001");
    let mut swarm = FakeSwarm::with(|_| {}, &[(named, address(from))]);
    let came = (0..50).filter(|_| swarm.accept(PeerId::random(), from).is_some());
    assert_eq!(came.count(), 8);
    assert!(swarm.accept(named, from).is_some());
    assert!(swarm.connect(named, from).is_some());
}

#[test]
fn a_peer_is_at_the_public_host_that_it_is_connected_with() {
    let mut swarm = FakeSwarm::new(|options| options.allow_non_global = true);
    let [near, far, gone] = [0; 3].map(|_| PeerId::random());
    swarm.accept(near, "/ip4/10.0.0.1/tcp/1").unwrap();
    swarm.accept(far, "/ip4/10.0.0.1/tcp/2").unwrap();
    swarm.connect(far, "/ip4/1.1.1.1/tcp/1").unwrap();
    assert_eq!(swarm.limits.host_of(&near), None);
    assert_eq!(swarm.limits.host_of(&far), Some("1.1.1.1".parse().unwrap()));
    assert_eq!(swarm.limits.host_of(&gone), None);
}
