//! Request streams of one connection.

use std::{
    collections::VecDeque,
    convert::Infallible,
    task::{Context, Poll},
    time::Duration,
};

use libp2p::{
    PeerId, StreamProtocol,
    core::upgrade::ReadyUpgrade,
    swarm::{
        ConnectionHandler, ConnectionHandlerEvent, StreamUpgradeError, SubstreamProtocol,
        handler::{
            ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound,
        },
    },
};

use super::{OnStream, Waiting};
use crate::RequestError;

/// How long the negotiation of a stream may take.
const NEGOTIATION_TIMEOUT: Duration = Duration::from_secs(10);

pub(in crate::kademlia) struct Handler {
    protocol: StreamProtocol,
    peer: PeerId,
    on_stream: OnStream,
    waiting: VecDeque<Waiting>,
}

impl Handler {
    pub(super) fn new(protocol: StreamProtocol, peer: PeerId, on_stream: OnStream) -> Self {
        Self {
            protocol,
            peer,
            on_stream,
            waiting: VecDeque::new(),
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Waiting;
    type ToBehaviour = Infallible;
    type InboundProtocol = ReadyUpgrade<StreamProtocol>;
    type OutboundProtocol = ReadyUpgrade<StreamProtocol>;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Waiting;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol> {
        let protocol = ReadyUpgrade::new(self.protocol.clone());
        SubstreamProtocol::new(protocol, ()).with_timeout(NEGOTIATION_TIMEOUT)
    }

    fn poll(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Self::OutboundProtocol, Waiting, Infallible>> {
        while let Some(waiting) = self.waiting.pop_front() {
            if waiting.is_closed() {
                continue;
            }
            let protocol = ReadyUpgrade::new(self.protocol.clone());
            let protocol = SubstreamProtocol::new(protocol, waiting);
            return Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                protocol: protocol.with_timeout(NEGOTIATION_TIMEOUT),
            });
        }
        Poll::Pending
    }

    fn on_behaviour_event(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    fn on_connection_event(
        &mut self,
        event: ConnectionEvent<
            '_,
            Self::InboundProtocol,
            Self::OutboundProtocol,
            Self::InboundOpenInfo,
            Self::OutboundOpenInfo,
        >,
    ) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: stream,
                ..
            }) => (self.on_stream)(self.peer, stream),
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound {
                protocol: stream,
                info: waiting,
            }) => {
                // If the caller has left, the stream is dropped and closed here.
                let _ = waiting.send(Ok(stream));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError {
                info: waiting,
                error,
            }) => {
                let error = match error {
                    StreamUpgradeError::NegotiationFailed => RequestError::Unsupported,
                    _ => RequestError::Transient,
                };
                let _ = waiting.send(Err(error));
            }
            _ => {}
        }
    }
}
