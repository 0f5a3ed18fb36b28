//! Connection handler whose inbound streams do not keep a connection.
//!
//! Any open stream keeps a connection, and the Kademlia library never closes one that a peer leaves
//! open, since the peer may reuse it. So a peer that opens one and says nothing would hold its place
//! for as long as it likes. Every new stream still counts as use of the connection.

use std::task::{Context, Poll};

use libp2p::{
    core::upgrade::{InboundUpgrade, UpgradeInfo},
    swarm::{
        ConnectionHandler, ConnectionHandlerEvent, Stream, SubstreamProtocol,
        handler::{
            ConnectionEvent, FullyNegotiatedInbound, InboundUpgradeSend, ListenUpgradeError,
            UpgradeInfoSend,
        },
    },
};

/// A handler, and its inbound streams left out of account.
pub(in crate::kademlia) struct UncountedStreams<H>(pub(super) H);

/// The upgrade of a stream that is left out of account.
pub(in crate::kademlia) struct Uncounted<P>(P);

impl<P: InboundUpgradeSend> UpgradeInfo for Uncounted<P> {
    type Info = P::Info;
    type InfoIter = P::InfoIter;

    fn protocol_info(&self) -> P::InfoIter {
        UpgradeInfoSend::protocol_info(&self.0)
    }
}

impl<P: InboundUpgradeSend> InboundUpgrade<Stream> for Uncounted<P> {
    type Output = P::Output;
    type Error = P::Error;
    type Future = P::Future;

    fn upgrade_inbound(self, mut stream: Stream, info: P::Info) -> P::Future {
        stream.ignore_for_keep_alive();
        InboundUpgradeSend::upgrade_inbound(self.0, stream, info)
    }
}

impl<H: ConnectionHandler> ConnectionHandler for UncountedStreams<H> {
    type FromBehaviour = H::FromBehaviour;
    type ToBehaviour = H::ToBehaviour;
    type InboundProtocol = Uncounted<H::InboundProtocol>;
    type OutboundProtocol = H::OutboundProtocol;
    type InboundOpenInfo = H::InboundOpenInfo;
    type OutboundOpenInfo = H::OutboundOpenInfo;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol, Self::InboundOpenInfo> {
        self.0.listen_protocol().map_upgrade(Uncounted)
    }

    fn connection_keep_alive(&self) -> bool {
        self.0.connection_keep_alive()
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<
        ConnectionHandlerEvent<Self::OutboundProtocol, Self::OutboundOpenInfo, Self::ToBehaviour>,
    > {
        self.0.poll(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<Self::ToBehaviour>> {
        self.0.poll_close(cx)
    }

    fn on_behaviour_event(&mut self, event: Self::FromBehaviour) {
        self.0.on_behaviour_event(event);
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
        self.0.on_connection_event(match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, info }) => {
                ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, info })
            }
            ConnectionEvent::ListenUpgradeError(ListenUpgradeError { info, error }) => {
                ConnectionEvent::ListenUpgradeError(ListenUpgradeError { info, error })
            }
            ConnectionEvent::FullyNegotiatedOutbound(event) => {
                ConnectionEvent::FullyNegotiatedOutbound(event)
            }
            ConnectionEvent::AddressChange(event) => ConnectionEvent::AddressChange(event),
            ConnectionEvent::DialUpgradeError(event) => ConnectionEvent::DialUpgradeError(event),
            ConnectionEvent::LocalProtocolsChange(event) => {
                ConnectionEvent::LocalProtocolsChange(event)
            }
            ConnectionEvent::RemoteProtocolsChange(event) => {
                ConnectionEvent::RemoteProtocolsChange(event)
            }
            _ => return,
        });
    }
}
