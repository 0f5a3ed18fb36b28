//! One request to one peer, and the check of its response.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{Peer, PeerName, RequestError, Response};
use tokio::time::timeout;

use super::{Network, RequestPermit};
use crate::{InvalidManifest, Key, Manifest, ManifestId, off_runtime};

pub(super) type PendingRequest<'a> = BoxFuture<'a, RequestOutcome>;

pub(super) struct RequestOutcome {
    pub peer: PeerName,
    pub permit: RequestPermit,
    pub result: Result<PeerResponse, Failure>,
}

/// A response that counts: a proven manifest or none, and the peers that were named.
pub(super) struct PeerResponse {
    pub manifest: Option<Manifest>,
    pub peers: Response,
}

/// Why a request brought no response that counts.
pub(super) enum Failure {
    Request(RequestError),
    /// A value that does not prove itself. Nothing else in the response counts.
    Lie,
    /// The very bytes that the key names, and they are no manifest.
    NoManifest,
}

pub(super) fn send<'a>(
    network: &'a Network,
    key: &'a Key,
    peer: Peer,
    permit: RequestPermit,
    limit: Duration,
) -> PendingRequest<'a> {
    Box::pin(async move {
        let exchange = async {
            let response = network.dht.request(&peer, &key.record()).await;
            let mut peers = response.map_err(Failure::Request)?;
            let manifest = match peers.value.take() {
                Some(value) => Some(decode(network, key, value).await?),
                None => None,
            };
            Ok(PeerResponse { manifest, peers })
        };
        let result = timeout(limit, exchange).await;
        let result = result.unwrap_or_else(|_| Err(Failure::Request(network.silence(&peer))));
        let peer = peer.id;
        RequestOutcome {
            peer,
            permit,
            result,
        }
    })
}

/// The manifest that `key` names, read from a peer's bytes.
pub(super) async fn decode(
    network: &Network,
    key: &Key,
    value: Bytes,
) -> Result<Manifest, Failure> {
    let (key, bytes) = (key.clone(), value.len());
    let decoding = off_runtime::run(&network.group, bytes, move || decode_now(&key, &value));
    // A node that stops says nothing about the peer.
    let closed = Failure::Request(RequestError::Closed);
    decoding.await.unwrap_or(Err(closed))
}

fn decode_now(key: &Key, value: &Bytes) -> Result<Manifest, Failure> {
    match key {
        Key::Manifest(id) if ManifestId::of(value) != *id => Err(Failure::Lie),
        Key::Manifest(_) => Manifest::decode(value).map_err(|error| match error {
            // A version that this node does not know yet may be a manifest.
            InvalidManifest::Version => Failure::Lie,
            _ => Failure::NoManifest,
        }),
        Key::Name(name) => match Manifest::decode(value) {
            Ok(manifest) if manifest.name() == *name => Ok(manifest),
            _ => Err(Failure::Lie),
        },
    }
}
