//! Streams of the request protocol: opened to peers, accepted from peers.
//!
//! Invariants:
//! - A caller that waits for a stream gets it or an error; none waits for a peer that is neither
//!   connected nor dialled.
//! - The addresses that a caller brings are dialled, whatever others dial meanwhile: theirs may be
//!   wrong. Their failure is not ours while a dial of ours goes on.
//! - Bounded by the waiting callers, who hold permits, and by the connections.

mod handler;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId, Stream,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, DialError, DialFailure, FromSwarm, NetworkBehaviour,
        NotifyHandler, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
        behaviour::{ConnectionClosed, ConnectionEstablished},
        dial_opts::{DialOpts, PeerCondition},
    },
};
use tokio::sync::oneshot;

use self::handler::Handler;
use crate::RequestError;

/// A caller that waits for a stream.
pub(super) type Waiting = oneshot::Sender<Result<Stream, RequestError>>;

type Action = ToSwarm<std::convert::Infallible, Waiting>;

/// Accepts the stream of a peer; must not wait.
pub(super) type OnStream = Arc<dyn Fn(PeerId, Stream) + Send + Sync>;

/// The behaviour that opens and accepts streams.
pub(super) struct RequestStreams {
    on_stream: OnStream,
    connected: HashSet<PeerId>,
    /// Callers that wait for a connection.
    waiting: HashMap<PeerId, Vec<Waiting>>,
    /// Our own dials in flight; each was begun for a caller.
    dials: HashMap<ConnectionId, Dial>,
    actions: VecDeque<Action>,
}

struct Dial {
    peer: PeerId,
    /// The addresses that the caller brought.
    addresses: Vec<Multiaddr>,
}

impl RequestStreams {
    pub(super) fn new(on_stream: OnStream) -> Self {
        Self {
            on_stream,
            connected: HashSet::new(),
            waiting: HashMap::new(),
            dials: HashMap::new(),
            actions: VecDeque::new(),
        }
    }

    /// Opens a stream to `peer`, after a dial if need be.
    ///
    /// The swarm must be polled afterwards.
    pub(super) fn open(&mut self, peer: PeerId, addresses: Vec<Multiaddr>, waiting: Waiting) {
        if self.connected.contains(&peer) {
            return self.notify(peer, waiting);
        }
        let others = self.waiting.entry(peer).or_default();
        others.retain(|other| !other.is_closed());
        others.push(waiting);
        self.dial(peer, addresses);
    }

    /// Dials those addresses that are not being dialled; without any, those that other behaviours
    /// know, unless a dial is in flight already.
    fn dial(&mut self, peer: PeerId, mut addresses: Vec<Multiaddr>) {
        let condition = if addresses.is_empty() {
            PeerCondition::DisconnectedAndNotDialing
        } else {
            PeerCondition::Disconnected
        };
        let mut is_dialled = false;
        for dial in self.dials.values().filter(|dial| dial.peer == peer) {
            is_dialled = true;
            addresses.retain(|address| !dial.addresses.contains(address));
        }
        if is_dialled && addresses.is_empty() {
            return;
        }
        let opts = DialOpts::peer_id(peer)
            .condition(condition)
            .addresses(addresses.clone())
            .extend_addresses_through_behaviour()
            .build();
        let dial = Dial { peer, addresses };
        self.dials.insert(opts.connection_id(), dial);
        self.actions.push_back(ToSwarm::Dial { opts });
    }

    fn notify(&mut self, peer_id: PeerId, waiting: Waiting) {
        self.actions.push_back(ToSwarm::NotifyHandler {
            peer_id,
            handler: NotifyHandler::Any,
            event: waiting,
        });
    }

    /// A dial to `peer` failed, ours or another's.
    fn failed(&mut self, peer: PeerId, error: &DialError) {
        if self.dials.values().any(|dial| dial.peer == peer) {
            return;
        }
        let error = match error {
            // By our own limits, which says nothing about the peer.
            DialError::Denied { .. } => RequestError::Overloaded,
            _ => RequestError::NoRoute,
        };
        for waiting in self.waiting.remove(&peer).unwrap_or_default() {
            // The caller may have left.
            let _ = waiting.send(Err(error));
        }
    }
}

impl NetworkBehaviour for RequestStreams {
    type ConnectionHandler = Handler;
    type ToSwarm = std::convert::Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::new(peer, Arc::clone(&self.on_stream)))
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::new(peer, Arc::clone(&self.on_stream)))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                ..
            }) => {
                self.dials.remove(&connection_id);
                self.connected.insert(peer_id);
                for waiting in self.waiting.remove(&peer_id).unwrap_or_default() {
                    self.notify(peer_id, waiting);
                }
            }
            FromSwarm::ConnectionClosed(ConnectionClosed {
                peer_id,
                remaining_established: 0,
                ..
            }) => {
                self.connected.remove(&peer_id);
            }
            FromSwarm::DialFailure(DialFailure {
                peer_id,
                error,
                connection_id,
            }) => {
                self.dials.remove(&connection_id);
                match (peer_id, error) {
                    // Another behaviour dials the same peer: the end of that dial is ours as well.
                    (_, DialError::DialPeerConditionFalse(_)) | (None, _) => {}
                    (Some(peer), error) => self.failed(peer, error),
                }
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

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        // Actions are added only by the task that polls.
        self.actions.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests;
