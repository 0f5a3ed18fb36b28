//! Filter of addresses between the swarm and the Kademlia library.
//!
//! Invariants:
//! - However many addresses of a peer are known, a dial tries few: those that strangers may name,
//!   as many as one peer may have, and those that the operator named for it. One answer of a
//!   stranger can bring thousands.
//! - The library names to strangers every address that it knows. So it knows no address that we
//!   listen on, only external ones, and none that the operator named and strangers may not name.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm,
    },
};

use super::{
    address::{self, Policy},
    stats::Stats,
    uncounted_streams::UncountedStreams,
};

/// A behaviour whose addresses are filtered, in both directions, and whose inbound streams do not
/// keep a connection.
pub(super) struct AddressFilter<B> {
    pub(super) inner: B,
    policy: Policy,
    /// Peers and addresses that the operator named; fixed at the start.
    named: Vec<(PeerId, Multiaddr)>,
    stats: Arc<Stats>,
}

impl<B> AddressFilter<B> {
    pub(super) fn new(
        inner: B,
        policy: Policy,
        named: Vec<(PeerId, Multiaddr)>,
        stats: Arc<Stats>,
    ) -> Self {
        Self {
            inner,
            policy,
            named,
            stats,
        }
    }

    /// The addresses of `peer` to dial, those that the operator named first.
    fn filter_addresses(&self, peer: PeerId, addresses: &[Multiaddr]) -> Vec<Multiaddr> {
        let named = self.named.iter().filter(|(other, _)| *other == peer);
        let mut named: Vec<Multiaddr> = named.map(|(_, address)| address.clone()).collect();
        let others = addresses
            .iter()
            .filter(|address| !named.contains(&address::without_peer(address)));
        let (good, refused) = self.policy.filter_addresses(others);
        self.stats.refused_addresses(refused);
        named.extend(good);
        named
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for AddressFilter<B> {
    type ConnectionHandler = UncountedStreams<B::ConnectionHandler>;
    type ToSwarm = B::ToSwarm;

    fn handle_pending_inbound_connection(
        &mut self,
        id: ConnectionId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        self.inner
            .handle_pending_inbound_connection(id, local, remote)
    }

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let handler = self
            .inner
            .handle_established_inbound_connection(id, peer, local, remote)?;
        Ok(UncountedStreams(handler))
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: Option<PeerId>,
        addresses: &[Multiaddr],
        role: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        let known = self
            .inner
            .handle_pending_outbound_connection(id, peer, addresses, role)?;
        Ok(peer.map_or_else(Vec::new, |peer| self.filter_addresses(peer, &known)))
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let shown = self.policy.shown(peer, address);
        let handler = self
            .inner
            .handle_established_outbound_connection(id, peer, &shown, role, port)?;
        Ok(UncountedStreams(handler))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        if !matches!(
            event,
            FromSwarm::NewListenAddr(_) | FromSwarm::ExpiredListenAddr(_)
        ) {
            self.inner.on_swarm_event(event);
        }
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        self.inner.on_connection_handler_event(peer, id, event);
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.inner.poll(cx)
    }
}

#[cfg(test)]
mod tests;
