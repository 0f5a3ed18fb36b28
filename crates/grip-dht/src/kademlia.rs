//! The network: Kademlia over libp2p, and requests over streams of our own.
//!
//! Kademlia routes, finds the nodes nearest to a key and stores records there. Requests do not
//! go through its queries: a caller chooses the peers, one stream each, and closes those it no longer
//! needs.
//!
//! One task owns the swarm, one validates records; every connection and every inbound request is a
//! task as well, all in the group given at the start. All queues are bounded; a request that finds
//! one full is refused as busy.

mod address;
mod address_filter;
mod behaviour;
mod codec;
mod connection_limits;
mod dial_filter;
mod host_names;
#[cfg(any(test, feature = "testing"))]
mod misbehaviour;
mod options;
mod own_keys;
mod publications;
mod reachability;
mod record_store;
mod record_validation;
mod request_handler;
mod request_streams;
mod start;
mod stats;
mod swarm_task;
#[cfg(test)]
mod tests;
mod uncounted_streams;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_tasks::CancellationToken;
use libp2p::{Multiaddr, PeerId, Stream};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use self::{
    address::Policy,
    codec::{CodecError, Found, PeerAddresses, WireResponse},
    publications::Caller,
    record_validation::{OwnUpdate, Publication},
    request_handler::PeerPermits,
    request_streams::ConnectedPeers,
    stats::{Stats, count},
    swarm_task::Command,
};
pub use self::{options::Options, start::start};
use crate::{
    Dht, DhtError, Peer, PeerName, PublishFuture, RecordKey, RequestError, RequestFuture, Response,
    Status, limits,
};

/// This node's handle to the network.
///
/// The network runs until its task group is shut down, whether or not a handle is left.
pub struct Kademlia {
    own: PeerId,
    policy: Policy,
    outbound_request_timeout: std::time::Duration,
    stats: Arc<Stats>,
    connected: ConnectedPeers,
    commands: mpsc::Sender<Command>,
    own_updates: mpsc::Sender<OwnUpdate>,
    request_permits: PeerPermits,
    publication_permits: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Kademlia {
    async fn send_request(&self, peer: &Peer, key: &RecordKey) -> Result<Response, RequestError> {
        let id = address::id(&peer.id).ok_or(RequestError::NoRoute)?;
        let _permit = self
            .request_permits
            .try_acquire(id)
            .ok_or(RequestError::Overloaded)?;
        let addresses = self.addresses(peer);
        count(&self.stats.counts.asked_total);
        let mut request = OutboundRequest {
            stats: &self.stats,
            ended: false,
        };
        let exchange = timeout(
            self.outbound_request_timeout,
            self.exchange(id, addresses, key),
        );
        let found = exchange.await.unwrap_or_else(|_| {
            let is_connected = self.connected.lock().contains(&id);
            Err(if is_connected {
                RequestError::Transient
            } else {
                RequestError::NoRoute
            })
        });
        request.ended = true;
        let response = self.response(found?);
        count(&self.stats.counts.answered_total);
        Ok(response)
    }

    /// Dials peers that others named, each as `/ip4/…/tcp/…/p2p/…`, and returns how many. What may not
    /// be dialled is left out. Who answers as a member of the network gets into the routing table.
    pub async fn meet(&self, addresses: &[String]) -> usize {
        let mut met = 0;
        for text in addresses {
            let Some((peer, address)) = address::named_by_others(text, self.policy) else {
                self.stats.refused_addresses(1);
                continue;
            };
            if peer != self.own
                && self
                    .commands
                    .send(Command::Meet { peer, address })
                    .await
                    .is_ok()
            {
                met += 1;
            }
        }
        met
    }

    /// Replaces the addresses that others are told beside those that are listened on. Nothing changes
    /// where one of them is none that others would dial.
    pub async fn set_external(&self, addresses: &[String]) -> Result<(), DhtError> {
        let external = addresses.iter();
        let external = external.map(|text| address::external(text, self.policy));
        let addresses = external.collect::<Result<_, _>>()?;
        let sent = self.commands.send(Command::External { addresses }).await;
        sent.map_err(|_| DhtError::Closed)
    }

    /// Peers of the routing table, the connected ones first, each as `/ip4/…/tcp/…/p2p/…`.
    pub async fn good_peers(&self, limit: usize) -> Vec<String> {
        let (found, receiver) = oneshot::channel();
        let command = Command::GoodPeers { limit, found };
        if self.commands.send(command).await.is_err() {
            return Vec::new();
        }
        receiver.await.unwrap_or_default()
    }

    /// The addresses of `peer` that may be dialled.
    fn addresses(&self, peer: &Peer) -> Vec<Multiaddr> {
        let texts = peer.addresses.iter().take(limits::ADDRESSES);
        let addresses: Vec<Multiaddr> = texts.filter_map(|text| text.parse().ok()).collect();
        let (good, refused) = self.policy.filter_addresses(&addresses);
        self.stats.refused_addresses(refused);
        good
    }

    async fn exchange(
        &self,
        peer: PeerId,
        addresses: Vec<Multiaddr>,
        key: &RecordKey,
    ) -> Result<Found, RequestError> {
        let mut stream = self.open(peer, addresses).await?;
        let answer = async {
            codec::write_request(&mut stream, key).await?;
            codec::read_response(&mut stream).await
        };
        match answer.await {
            Ok(WireResponse::Found(found)) => Ok(found),
            Ok(WireResponse::Busy) => Err(RequestError::Refused),
            Err(CodecError::TooLarge) => Err(RequestError::TooLarge),
            Err(CodecError::Malformed) => Err(RequestError::Malformed),
            Err(CodecError::Io(_)) => Err(self.broken()),
        }
    }

    async fn open(&self, peer: PeerId, addresses: Vec<Multiaddr>) -> Result<Stream, RequestError> {
        let (waiting, opened) = oneshot::channel();
        let command = Command::Open {
            peer,
            addresses,
            waiting,
        };
        match self.commands.try_send(command) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(RequestError::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(RequestError::Closed),
        }
        opened.await.unwrap_or_else(|_| Err(self.broken()))
    }

    fn broken(&self) -> RequestError {
        if self.stop.is_cancelled() {
            RequestError::Closed
        } else {
            RequestError::Transient
        }
    }

    fn response(&self, found: Found) -> Response {
        Response {
            value: found.value,
            providers: self.peers(found.providers),
            closer: self.peers(found.closer),
        }
    }

    /// Peers that a stranger named, with those of their addresses that may be used.
    fn peers(&self, seen: Vec<PeerAddresses>) -> Vec<Peer> {
        let others = seen.into_iter().filter(|(id, _)| *id != self.own);
        let peer = |(id, addresses): PeerAddresses| {
            let (good, refused) = self.policy.filter_addresses(&addresses);
            self.stats.refused_addresses(refused);
            Some(Peer {
                id: address::name(&id)?,
                addresses: good.iter().map(Multiaddr::to_string).collect(),
            })
        };
        others.filter_map(peer).collect()
    }
}

/// A request of ours; counted as abandoned unless it ended.
struct OutboundRequest<'a> {
    stats: &'a Stats,
    ended: bool,
}

impl Drop for OutboundRequest<'_> {
    fn drop(&mut self) {
        if !self.ended {
            count(&self.stats.counts.abandoned_total);
        }
    }
}

impl Dht for Kademlia {
    fn local_response<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Response> {
        Box::pin(async move {
            let (found, receiver) = oneshot::channel();
            let key = key.clone();
            let command = Command::LocalResponse { key, found };
            if self.commands.send(command).await.is_err() {
                return Response::default();
            }
            self.response(receiver.await.unwrap_or_default())
        })
    }

    fn request<'a>(&'a self, peer: &'a Peer, key: &'a RecordKey) -> RequestFuture<'a> {
        Box::pin(self.send_request(peer, key))
    }

    fn is_connected(&self, peer: &PeerName) -> bool {
        address::id(peer).is_some_and(|peer| self.connected.lock().contains(&peer))
    }

    fn publish(&self, key: RecordKey, value: Option<Bytes>) -> PublishFuture<'_> {
        Box::pin(async move {
            let bytes = value.as_ref().map_or(0, Bytes::len);
            if bytes > limits::RECORD_BYTES {
                return Err(DhtError::TooLarge { bytes });
            }
            let permit = Arc::clone(&self.publication_permits).try_acquire_owned();
            let permit = permit.map_err(|_| DhtError::Busy)?;
            let (done, published) = oneshot::channel();
            let update = OwnUpdate::Publish(Publication {
                key,
                value,
                caller: Caller { done, permit },
            });
            let sent = self.own_updates.send(update).await;
            sent.map_err(|_| DhtError::Closed)?;
            published.await.unwrap_or(Err(DhtError::Closed))
        })
    }

    fn withdraw<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (done, withdrawn) = oneshot::channel();
            let key = key.clone();
            if self
                .own_updates
                .send(OwnUpdate::Withdraw { key, done })
                .await
                .is_ok()
            {
                // An error means that the node has stopped.
                let _ = withdrawn.await;
            }
        })
    }

    fn status(&self) -> Status {
        self.stats.status()
    }
}
