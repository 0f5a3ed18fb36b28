//! Limits on connections, in all and per peer and host.
//!
//! Invariants:
//! - A connection is counted from its first attempt to its end and not longer, so the state is
//!   bounded by the limits.
//! - Names of peers cost nothing, public addresses do: one address has few connections, whatever the
//!   names. Only peers that the operator named may have more.
//! - When all inbound places are taken, the host with most of them makes room for one with fewer, so
//!   that it takes as many hosts as there are places to keep another out.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    convert::Infallible,
    net::IpAddr,
    sync::Arc,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        CloseConnection, ConnectionDenied, ConnectionId, DialFailure, FromSwarm, ListenFailure,
        NetworkBehaviour, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
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
    /// Connections that make room for others.
    closing: VecDeque<(PeerId, ConnectionId)>,
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
            closing: VecDeque::new(),
        }
    }

    /// The public host that `peer` is connected from or at, the first of several.
    pub(super) fn host_of(&self, peer: &PeerId) -> Option<IpAddr> {
        let connections = self.connections.values();
        let of_peer = connections.filter(|it| it.peer.as_ref() == Some(peer));
        of_peer.filter_map(|it| it.host).min()
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
        if self.count(|it| it.peer == Some(peer)) >= self.limits.per_peer {
            return Err(Refused::Full("with this peer"));
        }
        let is_full = self.count(|it| !it.is_pending()) >= self.limits.established;
        let is_full_of_incoming = is_incoming && self.count(incoming) >= self.limits.incoming;
        if !is_full && !is_full_of_incoming {
            return Ok(());
        }
        let is_named = self.named.contains(&peer);
        if self.make_room_for(address::host(address), is_named) {
            return Ok(());
        }
        Err(Refused::Full(if is_full {
            "in all"
        } else {
            "from others"
        }))
    }

    /// Closes the newest inbound connection of the host that has most of them, if `host` has fewer
    /// even with one more; one connection of each host is never closed for another, except for a
    /// peer that the operator named.
    fn make_room_for(&mut self, host: Option<IpAddr>, is_named: bool) -> bool {
        let mut by_host: BTreeMap<IpAddr, Vec<(ConnectionId, PeerId)>> = BTreeMap::new();
        for (id, connection) in &self.connections {
            if let (true, Some(peer), Some(host)) =
                (connection.is_incoming, connection.peer, connection.host)
                && !self.named.contains(&peer)
            {
                by_host.entry(host).or_default().push((*id, peer));
            }
        }
        let own = host.and_then(|host| by_host.get(&host)).map_or(0, Vec::len);
        let most = by_host.into_values().max_by_key(Vec::len);
        let Some(connections) = most.filter(|it| is_named || it.len() > own + 1) else {
            return false;
        };
        let Some((id, peer)) = connections.into_iter().max_by_key(|(id, _)| *id) else {
            return false;
        };
        self.connections.remove(&id);
        self.closing.push_back((peer, id));
        true
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
        // Added only by the task that polls.
        let closing = self.closing.pop_front();
        closing.map_or(Poll::Pending, |(peer_id, id)| {
            Poll::Ready(ToSwarm::CloseConnection {
                peer_id,
                connection: CloseConnection::One(id),
            })
        })
    }
}

#[cfg(test)]
mod tests;
