//! One member's view of the network in memory.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::{Fault, Network, network};
use crate::{
    Dht, DhtError, Peer, PeerName, PublishFuture, Published, Reachability, RecordKey, RequestError,
    RequestFuture, Response, Status, limits,
};

/// A member of a [`Network`].
pub struct Member {
    network: Network,
    own: PeerName,
}

impl Member {
    pub(super) fn new(network: Network, own: PeerName) -> Self {
        Self { network, own }
    }

    pub fn name(&self) -> &PeerName {
        &self.own
    }

    async fn send_request(&self, to: &PeerName, key: &RecordKey) -> Result<Response, RequestError> {
        let plan = self.network.begin(to, key).ok_or(RequestError::NoRoute)?;
        let mut waiting = Waiting {
            network: &self.network,
            to,
            done: false,
        };
        tokio::time::sleep(plan.latency).await;
        let fault = match plan.fault {
            Some(Fault::Stall) => std::future::pending().await,
            Some(Fault::Lie(value)) => Some(Ok(Response {
                value: Some(value),
                ..Response::default()
            })),
            Some(Fault::Busy) => Some(Err(RequestError::Refused)),
            Some(Fault::Error(error)) => Some(Err(error)),
            Some(Fault::Close) => Some(Err(RequestError::Transient)),
            None => None,
        };
        let local = match (&fault, plan.local) {
            (None, Some(local)) => local.value(key).await,
            _ => None,
        };
        waiting.done = true;
        fault.unwrap_or_else(|| {
            let mut response = self.network.answer(to, key, &self.own);
            response.value = local.or(response.value);
            Ok(response)
        })
    }
}

/// Counts a request that nobody waits for any more.
struct Waiting<'a> {
    network: &'a Network,
    to: &'a PeerName,
    done: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.network.cancel(self.to);
        }
    }
}

impl Dht for Member {
    fn local_response<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Response> {
        Box::pin(async move { self.network.local_response(&self.own, key) })
    }

    fn request<'a>(&'a self, peer: &'a Peer, key: &'a RecordKey) -> RequestFuture<'a> {
        Box::pin(self.send_request(&peer.id, key))
    }

    fn is_connected(&self, peer: &PeerName) -> bool {
        self.network.names().contains(peer)
    }

    fn publish(&self, key: RecordKey, value: Option<Bytes>) -> PublishFuture<'_> {
        Box::pin(async move {
            let bytes = value.as_ref().map_or(0, Bytes::len);
            if bytes > limits::RECORD_BYTES {
                return Err(DhtError::TooLarge { bytes });
            }
            let mut stored_at = 0;
            let nearest = self.network.by_distance(&key);
            let others = nearest.iter().filter(|name| **name != self.own);
            for name in others.take(limits::PEERS) {
                self.network.provide(name, &key, &self.own);
                if let Some(value) = &value {
                    stored_at += usize::from(self.network.offer(name, &key, value));
                }
            }
            match value {
                Some(value) => self.network.publish(&self.own, &key, value),
                None => self.network.unpublish(&self.own, &key),
            }
            Ok(Published { stored_at })
        })
    }

    fn withdraw<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.network.forget(&self.own, key) })
    }

    fn status(&self) -> Status {
        let [known_peers, records, provided_keys] = self.network.sizes(&self.own);
        Status {
            peer: self.own.clone(),
            listening: network::peer(self.own.clone()).addresses,
            external: Vec::new(),
            reachability: Reachability::Unknown,
            connected_peers: known_peers,
            known_peers,
            records,
            provided_keys,
            published_keys: 0,
            max_published: usize::MAX,
            counters: self.network.counters_of(&self.own),
        }
    }
}
