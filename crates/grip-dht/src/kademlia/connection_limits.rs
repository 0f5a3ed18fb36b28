//! Who may connect, and how many.
//!
//! Invariants:
//! - A connection is known here from the first knock to its end and not longer, so what is known
//!   is bounded by what may be connected.
//! - Names cost nothing, public addresses do: however many names somebody has, one address has
//!   few connections. Only with peers that the operator named there may be more.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, DialFailure, FromSwarm, ListenFailure, NetworkBehaviour,
        THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
        behaviour::{ConnectionClosed, ConnectionEstablished},
        dummy,
    },
};

use super::{
    Options,
    address::{self, Policy},
    stats::{Stats, count},
};

/// The part of the swarm that all connections permit, in both directions.
pub(super) struct ConnectionLimits {
    bounds: Bounds,
    policy: Policy,
    stats: Arc<Stats>,
    /// The peers that the operator named, and where they are; fixed at the start.
    named: HashSet<PeerId>,
    named_places: HashSet<IpAddr>,
    /// Few enough to be counted whenever somebody knocks.
    connections: HashMap<ConnectionId, Connection>,
}

struct Bounds {
    made: usize,
    incoming: usize,
    per_peer: usize,
    per_place: usize,
    /// For each direction.
    pending: usize,
}

struct Connection {
    is_incoming: bool,
    /// With whom it is; nobody while it is being made.
    peer: Option<PeerId>,
    /// Where the other is, as far as that tells hosts apart.
    place: Option<IpAddr>,
}

impl Connection {
    fn is_pending(&self) -> bool {
        self.peer.is_none()
    }
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("this node stays within its LAN")]
    Outside,
    #[error("this node has as many connections with {0} as it may")]
    Crowded(IpAddr),
    #[error("this node has as many connections {0} as it may")]
    Full(&'static str),
}

impl From<Refused> for ConnectionDenied {
    fn from(refused: Refused) -> Self {
        Self::new(refused)
    }
}

impl ConnectionLimits {
    pub(super) fn new(
        options: &Options,
        bootstrap: &[(PeerId, Multiaddr)],
        stats: Arc<Stats>,
    ) -> Self {
        let places = bootstrap.iter();
        let places = places.filter_map(|(_, address)| address::place(address));
        let made = options.max_connections.max(4) as usize;
        Self {
            bounds: Bounds {
                made,
                // Those who come leave room for those we go to.
                incoming: made - made / 4,
                per_peer: options.max_connections_per_peer as usize,
                per_place: options.max_connections_per_address as usize,
                pending: options.max_pending_connections as usize,
            },
            policy: options.policy(),
            stats,
            named: bootstrap.iter().map(|(peer, _)| *peer).collect(),
            named_places: places.collect(),
            connections: HashMap::new(),
        }
    }

    fn count(&self, is_counted: impl Fn(&Connection) -> bool) -> usize {
        let connections = self.connections.values();
        connections.filter(|it| is_counted(it)).count()
    }

    /// Notes a connection that is about to be made, if there is room.
    fn begin(
        &mut self,
        id: ConnectionId,
        is_incoming: bool,
        place: Option<IpAddr>,
    ) -> Result<(), Refused> {
        let pending = self.count(|it| it.is_pending() && it.is_incoming == is_incoming);
        if pending >= self.bounds.pending {
            return Err(Refused::Full("in the making"));
        }
        let connection = Connection {
            is_incoming,
            peer: None,
            place,
        };
        self.connections.insert(id, connection);
        Ok(())
    }

    /// Whether a connection that was made may stay. If so, the swarm says at once that it is
    /// there; if not, nothing of it is left.
    fn admit(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        is_incoming: bool,
        address: &Multiaddr,
    ) -> Result<(), Refused> {
        self.connections.remove(&id);
        if !self.named.contains(&peer) {
            self.has_room_for(address::place(address))?;
        }
        let incoming = |it: &Connection| !it.is_pending() && it.is_incoming;
        if is_incoming && self.count(incoming) >= self.bounds.incoming {
            return Err(Refused::Full("from others"));
        }
        if self.count(|it| it.peer == Some(peer)) >= self.bounds.per_peer {
            return Err(Refused::Full("with this peer"));
        }
        if self.count(|it| !it.is_pending()) >= self.bounds.made {
            return Err(Refused::Full("in all"));
        }
        Ok(())
    }

    /// Whether one more may come from there.
    fn has_room_for(&self, place: Option<IpAddr>) -> Result<(), Refused> {
        let Some(place) = place else {
            return Ok(());
        };
        if self.count(|it| it.place == Some(place)) < self.bounds.per_place {
            return Ok(());
        }
        count(&self.stats.counts.connections_refused);
        Err(Refused::Crowded(place))
    }
}

impl NetworkBehaviour for ConnectionLimits {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        id: ConnectionId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        if !self.policy.admits(remote) {
            count(&self.stats.counts.connections_refused);
            return Err(Refused::Outside.into());
        }
        // Who is known to be there shows when the connection is made.
        let place = address::place(remote);
        if !place.is_some_and(|place| self.named_places.contains(&place)) {
            self.has_room_for(place)?;
        }
        Ok(self.begin(id, true, place)?)
    }

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.admit(id, peer, true, remote)?;
        Ok(dummy::ConnectionHandler)
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        _: Option<PeerId>,
        _: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        // Which of its addresses it will be shows when the connection is made.
        self.begin(id, false, None)?;
        Ok(Vec::new())
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.admit(id, peer, false, address)?;
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            }) => {
                let connection = Connection {
                    is_incoming: endpoint.is_listener(),
                    peer: Some(peer_id),
                    place: address::place(endpoint.get_remote_address()),
                };
                self.connections.insert(connection_id, connection);
            }
            FromSwarm::ConnectionClosed(ConnectionClosed { connection_id, .. })
            | FromSwarm::DialFailure(DialFailure { connection_id, .. })
            | FromSwarm::ListenFailure(ListenFailure { connection_id, .. }) => {
                self.connections.remove(&connection_id);
            }
            _ => {}
        }
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

#[cfg(test)]
mod tests;
