//! One member's view of the network in memory.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::{Fault, Network, network};
use crate::{
    AskError, Counters, Dht, DhtError, Peer, PeerName, Published, RecordKey, Reply, Status, limits,
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

    async fn question(&self, to: &PeerName, key: &RecordKey) -> Result<Reply, AskError> {
        let plan = self.network.begin(to, key).ok_or(AskError::NoRoute)?;
        let mut waiting = Waiting {
            network: &self.network,
            to,
            done: false,
        };
        tokio::time::sleep(plan.latency).await;
        let fault = match plan.fault {
            Some(Fault::Stall) => std::future::pending().await,
            Some(Fault::Lie(value)) => Some(Ok(Reply {
                value: Some(value),
                ..Reply::default()
            })),
            Some(Fault::Busy) => Some(Err(AskError::Refused)),
            Some(Fault::Error(error)) => Some(Err(error)),
            Some(Fault::Close) => Some(Err(AskError::Transient)),
            None => None,
        };
        let local = match (&fault, plan.local) {
            (None, Some(local)) => local.value(key).await,
            _ => None,
        };
        waiting.done = true;
        fault.unwrap_or_else(|| {
            let mut reply = self.network.answer(to, key, &self.own);
            reply.value = local.or(reply.value);
            Ok(reply)
        })
    }
}

/// Counts a question that nobody waits for any more.
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
    fn here<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Reply> {
        Box::pin(async move { self.network.here(&self.own, key) })
    }

    fn ask<'a>(
        &'a self,
        peer: &'a Peer,
        key: &'a RecordKey,
    ) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(self.question(&peer.id, key))
    }

    fn publish(
        &self,
        key: RecordKey,
        value: Option<Bytes>,
    ) -> BoxFuture<'_, Result<Published, DhtError>> {
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
            connected_peers: known_peers,
            known_peers,
            records,
            provided_keys,
            counters: Counters::default(),
        }
    }
}
