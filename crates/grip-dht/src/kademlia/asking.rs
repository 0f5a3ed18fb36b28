//! Streams for questions: opened to the peer that is asked, taken in from those who ask.
//!
//! Invariants:
//! - Who waits for a stream hears of it or of its failure; nobody is kept for a peer that is
//!   neither connected nor dialled.
//! - Bounded by those who wait, who are counted before they come here, and by the connections.

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
use crate::AskError;

/// Somebody who waits for a stream.
pub(super) type Waiting = oneshot::Sender<Result<Stream, AskError>>;

type Action = ToSwarm<std::convert::Infallible, Waiting>;

/// Takes in the stream of a peer who asks; must not wait.
pub(super) type Taking = Arc<dyn Fn(PeerId, Stream) + Send + Sync>;

/// The part of the swarm that has to do with questions.
pub(super) struct Asking {
    taking: Taking,
    connected: HashSet<PeerId>,
    /// Who waits for a connection.
    waiting: HashMap<PeerId, Vec<Waiting>>,
    actions: VecDeque<Action>,
}

impl Asking {
    pub(super) fn new(taking: Taking) -> Self {
        Self {
            taking,
            connected: HashSet::new(),
            waiting: HashMap::new(),
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
        let opts = DialOpts::peer_id(peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(addresses)
            .extend_addresses_through_behaviour()
            .build();
        self.actions.push_back(ToSwarm::Dial { opts });
    }

    fn notify(&mut self, peer_id: PeerId, waiting: Waiting) {
        self.actions.push_back(ToSwarm::NotifyHandler {
            peer_id,
            handler: NotifyHandler::Any,
            event: waiting,
        });
    }

    fn fail(&mut self, peer: PeerId) {
        for waiting in self.waiting.remove(&peer).unwrap_or_default() {
            // Who went away needs no answer.
            let _ = waiting.send(Err(AskError::NoRoute));
        }
    }
}

impl NetworkBehaviour for Asking {
    type ConnectionHandler = Handler;
    type ToSwarm = std::convert::Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::new(peer, Arc::clone(&self.taking)))
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Handler::new(peer, Arc::clone(&self.taking)))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ConnectionEstablished(ConnectionEstablished { peer_id, .. }) => {
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
            // Somebody else dials the same peer: the end of that dial is ours as well.
            FromSwarm::DialFailure(DialFailure {
                error: DialError::DialPeerConditionFalse(_),
                ..
            }) => {}
            FromSwarm::DialFailure(DialFailure {
                peer_id: Some(peer),
                ..
            }) => self.fail(peer),
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
        // Nothing is added between two polls but by those who poll.
        self.actions.pop_front().map_or(Poll::Pending, Poll::Ready)
    }
}
