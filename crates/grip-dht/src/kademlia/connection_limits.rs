//! Limits on connections, in all and per peer and host.
//!
//! Invariants:
//! - A connection is counted from its first attempt to its end and not longer, so the state is
//!   bounded by the limits.
//! - Names of peers cost nothing, public addresses do: one address has few connections, whatever the
//!   names. Only peers that the operator named may have more.

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

/// The behaviour that all connections pass, in both directions.
pub(super) struct ConnectionLimits {
    limits: Limits,
    policy: Policy,
    stats: Arc<Stats>,
    /// The peers that the operator named, and where they are; fixed at the start.
    named: HashSet<PeerId>,
    named_hosts: HashSet<IpAddr>,
    /// Few enough to be counted at every attempt.
    connections: HashMap<ConnectionId, Connection>,
}

struct Limits {
    established: usize,
    incoming: usize,
    per_peer: usize,
    per_host: usize,
    /// For each direction.
    pending: usize,
}

struct Connection {
    is_incoming: bool,
    /// None while it is being established.
    peer: Option<PeerId>,
    host: Option<IpAddr>,
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
    HostFull(IpAddr),
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
        let hosts = bootstrap.iter();
        let hosts = hosts.filter_map(|(_, address)| address::host(address));
        let established = options.max_connections.max(4) as usize;
        Self {
            limits: Limits {
                established,
                // Incoming connections leave room for our own.
                incoming: established - established / 4,
                per_peer: options.max_connections_per_peer as usize,
                per_host: options.max_connections_per_address as usize,
                pending: options.max_pending_connections as usize,
            },
            policy: options.policy(),
            stats,
            named: bootstrap.iter().map(|(peer, _)| *peer).collect(),
            named_hosts: hosts.collect(),
            connections: HashMap::new(),
        }
    }

    fn count(&self, is_counted: impl Fn(&Connection) -> bool) -> usize {
        let connections = self.connections.values();
        connections.filter(|it| is_counted(it)).count()
    }

    /// Counts a connection that is about to be established, if the limit allows.
    fn begin(
        &mut self,
        id: ConnectionId,
        is_incoming: bool,
        host: Option<IpAddr>,
    ) -> Result<(), Refused> {
        let pending = self.count(|it| it.is_pending() && it.is_incoming == is_incoming);
        if pending >= self.limits.pending {
            return Err(Refused::Full("in the making"));
        }
        let connection = Connection {
            is_incoming,
            peer: None,
            host,
        };
        self.connections.insert(id, connection);
        Ok(())
    }

    /// Whether an established connection may stay. If so, the swarm reports it at once; if not,
    /// it is no longer counted.
    fn admit(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        is_incoming: bool,
        address: &Multiaddr,
    ) -> Result<(), Refused> {
        self.connections.remove(&id);
        if !self.named.contains(&peer) {
            self.has_room_for(address::host(address))?;
        }
        let incoming = |it: &Connection| !it.is_pending() && it.is_incoming;
        if is_incoming && self.count(incoming) >= self.limits.incoming {
            return Err(Refused::Full("from others"));
        }
        if self.count(|it| it.peer == Some(peer)) >= self.limits.per_peer {
            return Err(Refused::Full("with this peer"));
        }
        if self.count(|it| !it.is_pending()) >= self.limits.established {
            return Err(Refused::Full("in all"));
        }
        Ok(())
    }

    /// Whether one more connection with `host` is allowed.
    fn has_room_for(&self, host: Option<IpAddr>) -> Result<(), Refused> {
        let Some(host) = host else {
            return Ok(());
        };
        if self.count(|it| it.host == Some(host)) < self.limits.per_host {
            return Ok(());
        }
        count(&self.stats.counts.connections_refused_total);
        Err(Refused::HostFull(host))
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
            count(&self.stats.counts.connections_refused_total);
            return Err(Refused::Outside.into());
        }
        // Which peer is there shows when the connection is established.
        let host = address::host(remote);
        if !host.is_some_and(|host| self.named_hosts.contains(&host)) {
            self.has_room_for(host)?;
        }
        Ok(self.begin(id, true, host)?)
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
        // Which of its addresses it is shows when the connection is established.
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
                    host: address::host(endpoint.get_remote_address()),
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
