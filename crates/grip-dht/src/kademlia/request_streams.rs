//! Streams of the request protocol: opened to peers, accepted from peers.
//!
//! Invariants:
//! - A caller that waits for a stream gets it or an error; none waits for a peer that is neither
//!   connected nor dialled.
//! - The addresses that a caller brings are dialled, whatever others dial meanwhile: theirs may be
//!   wrong. Their failure is not ours while a dial of ours goes on.
//! - A dial of ours ends when all callers have left, unless another behaviour waits for the peer.
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
        CloseConnection, ConnectionDenied, ConnectionId, DialError, DialFailure, FromSwarm,
        NetworkBehaviour, NotifyHandler, StreamProtocol, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm,
        behaviour::{ConnectionClosed, ConnectionEstablished},
        dial_opts::{DialOpts, PeerCondition},
    },
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::handler::Handler;
use crate::RequestError;

/// The request protocol.
pub(super) const REQUEST_PROTOCOL: StreamProtocol = StreamProtocol::new("/gripfast/ask/1");

/// The peers with which a connection stands; written by the behaviour alone.
pub(super) type ConnectedPeers = Arc<Mutex<HashSet<PeerId>>>;

/// A caller that waits for a stream.
pub(super) type Waiting = oneshot::Sender<Result<Stream, RequestError>>;

type Action = ToSwarm<std::convert::Infallible, Waiting>;

/// Accepts the stream of a peer; must not wait.
pub(super) type OnStream = Arc<dyn Fn(PeerId, Stream) + Send + Sync>;

/// The behaviour that opens and accepts streams.
pub(super) struct RequestStreams {
    protocol: StreamProtocol,
    on_stream: OnStream,
    connected: ConnectedPeers,
    /// Callers that wait for a connection.
    waiting: HashMap<PeerId, Vec<Waiting>>,
    /// Our own dials in flight; each was begun for a caller.
    dials: HashMap<ConnectionId, Dial>,
    /// Peers that another behaviour dials, or wants while we do.
    wanted_by_others: HashSet<PeerId>,
    actions: VecDeque<Action>,
}

struct Dial {
    peer: PeerId,
    /// The addresses that the caller brought.
    addresses: Vec<Multiaddr>,
}

impl RequestStreams {
    pub(super) fn new(protocol: StreamProtocol, on_stream: OnStream) -> Self {
        Self {
            protocol,
            on_stream,
            connected: ConnectedPeers::default(),
            waiting: HashMap::new(),
            dials: HashMap::new(),
            wanted_by_others: HashSet::new(),
            actions: VecDeque::new(),
        }
    }

    pub(super) fn connected(&self) -> ConnectedPeers {
        Arc::clone(&self.connected)
    }

    /// Opens a stream to `peer`, after a dial if need be.
    ///
    /// The swarm must be polled afterwards.
    pub(super) fn open(&mut self, peer: PeerId, addresses: Vec<Multiaddr>, waiting: Waiting) {
        if self.connected.lock().contains(&peer) {
            return self.notify(peer, waiting);
        }
        self.waiting.entry(peer).or_default().push(waiting);
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

    fn handler(&self, peer: PeerId) -> Handler {
        Handler::new(self.protocol.clone(), peer, Arc::clone(&self.on_stream))
    }

    /// A dial to `peer` failed, ours or another's.
    fn failed(&mut self, peer: PeerId, error: &DialError) {
        if self.dials.values().any(|dial| dial.peer == peer) {
            return;
        }
        self.wanted_by_others.remove(&peer);
        let error = match error {
            // By ourselves, which says nothing about the peer.
            DialError::Denied { .. } | DialError::Aborted => RequestError::Overloaded,
            _ => RequestError::NoRoute,
        };
        for waiting in self.waiting.remove(&peer).unwrap_or_default() {
            // The caller may have left.
            let _ = waiting.send(Err(error));
        }
    }

    /// Notices callers that have left, and ends the dials that nobody waits for any more.
    fn cancel_unwanted_dials(&mut self, cx: &mut Context<'_>) {
        self.waiting.retain(|peer, callers| {
            callers.retain_mut(|caller| caller.poll_closed(cx).is_pending());
            if !callers.is_empty() {
                return true;
            }
            let is_dialled = self.dials.values().any(|dial| dial.peer == *peer);
            if is_dialled && !self.wanted_by_others.contains(peer) {
                // Ended from now on, so that the next caller dials again.
                self.dials.retain(|_, dial| dial.peer != *peer);
                self.actions.push_back(ToSwarm::CloseConnection {
                    peer_id: *peer,
                    // There is none but those that are being made.
                    connection: CloseConnection::All,
                });
            }
            false
        });
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
        Ok(self.handler(peer))
    }

    fn handle_pending_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: Option<PeerId>,
        _: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        if !self.dials.contains_key(&id) {
            self.wanted_by_others.extend(peer);
        }
        Ok(Vec::new())
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.handler(peer))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished {
                peer_id,
                connection_id,
                ..
            }) => {
                self.dials.remove(&connection_id);
                self.wanted_by_others.remove(&peer_id);
                self.connected.lock().insert(peer_id);
                for waiting in self.waiting.remove(&peer_id).unwrap_or_default() {
                    self.notify(peer_id, waiting);
                }
            }
            FromSwarm::ConnectionClosed(ConnectionClosed {
                peer_id,
                remaining_established: 0,
                ..
            }) => {
                self.connected.lock().remove(&peer_id);
            }
            FromSwarm::DialFailure(DialFailure {
                peer_id,
                error,
                connection_id,
            }) => {
                let is_ours = self.dials.remove(&connection_id).is_some();
                match (peer_id, error) {
                    // Another behaviour dials the same peer: the end of that dial is ours as well.
                    (Some(peer), DialError::DialPeerConditionFalse(_)) => {
                        let waits = !is_ours && self.dials.values().any(|dial| dial.peer == peer);
                        self.wanted_by_others.extend(waits.then_some(peer));
                    }
                    (None, _) => {}
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

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        self.cancel_unwanted_dials(cx);
        // Actions are added only by the task that polls.
        self.actions.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests;
