//! Few addresses come through, and none of those we listen on.

use std::convert::Infallible;

use libp2p::{
    core::transport::ListenerId,
    swarm::{behaviour, dummy},
};

use super::*;
use crate::limits;

/// Knows many addresses of each peer, and keeps the events of the swarm.
#[derive(Default)]
struct Inner {
    known: Vec<Multiaddr>,
    events: Vec<String>,
}

impl NetworkBehaviour for Inner {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: Option<PeerId>,
        _: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        Ok(self.known.clone())
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.events.push(format!("{event:?}"));
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

fn place(text: &str) -> Multiaddr {
    text.parse().unwrap()
}

fn filter(inner: Inner, named: Vec<(PeerId, Multiaddr)>) -> AddressFilter<Inner> {
    let name = address::name(&PeerId::random()).unwrap();
    let stats = Arc::new(Stats::new(name));
    AddressFilter::new(inner, Policy::Global, named, stats)
}

fn dialled(filter: &mut AddressFilter<Inner>, peer: Option<PeerId>) -> Vec<Multiaddr> {
    let id = ConnectionId::new_unchecked(1);
    let role = Endpoint::Dialer;
    let dialled = filter.handle_pending_outbound_connection(id, peer, &[], role);
    dialled.unwrap()
}

#[test]
fn of_ten_thousand_addresses_a_few_good_ones_are_dialled() {
    let mut known = vec![place("/ip4/10.0.0.1/tcp/1"), place("/dns4/a.example/tcp/1")];
    known.extend((1..10_000).map(|port| place(&format!("/ip4/1.1.1.1/tcp/{port}"))));
    let inner = Inner {
        known,
        ..Inner::default()
    };
    let mut filter = filter(inner, Vec::new());
    let dialled_addresses = dialled(&mut filter, Some(PeerId::random()));
    assert_eq!(dialled_addresses.len(), limits::ADDRESSES);
    let refused = filter.stats.status().counters.addresses_refused_total;
    assert_eq!(refused, 2);
    assert_eq!(dialled(&mut filter, None), []);
}

#[test]
fn configured_addresses_of_a_peer_are_dialled_first() {
    let peer = PeerId::random();
    let named = place("/dns4/boot.example/tcp/4001");
    let many = (1..100).map(|port| place(&format!("/ip4/1.1.1.1/tcp/{port}")));
    let known = many.chain([named.clone().with_p2p(peer).unwrap()]);
    let inner = Inner {
        known: known.collect(),
        ..Inner::default()
    };
    let mut filter = filter(inner, vec![(peer, named.clone())]);
    let of_peer = dialled(&mut filter, Some(peer));
    assert_eq!(
        (&of_peer[0], of_peer.len()),
        (&named, 1 + limits::ADDRESSES)
    );
    let of_another = dialled(&mut filter, Some(PeerId::random()));
    assert!(!of_another.contains(&named));
}

#[test]
fn listen_addresses_are_not_passed_on_and_external_ones_are() {
    let mut filter = filter(Inner::default(), Vec::new());
    let (listener_id, addr) = (ListenerId::next(), &place("/ip4/10.0.0.1/tcp/1"));
    filter.on_swarm_event(FromSwarm::NewListenAddr(behaviour::NewListenAddr {
        listener_id,
        addr,
    }));
    let gone = behaviour::ExpiredListenAddr { listener_id, addr };
    filter.on_swarm_event(FromSwarm::ExpiredListenAddr(gone));
    assert_eq!(filter.inner.events, [] as [String; 0]);
    let confirmed = behaviour::ExternalAddrConfirmed { addr };
    filter.on_swarm_event(FromSwarm::ExternalAddrConfirmed(confirmed));
    assert_eq!(filter.inner.events.len(), 1);
}
