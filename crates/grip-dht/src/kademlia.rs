//! The network itself: Kademlia over libp2p, and questions over streams of our own.
//!
//! Kademlia routes, finds the nodes nearest to a key and stores records there. Questions do not
//! go through its queries: a caller asks the peers it chooses, one stream each, and closes those
//! it needs no more.
//!
//! One task owns the swarm, one judges records; every connection and every answer is a task as
//! well, all in the group given at the start. All queues are bounded; whoever finds one full is
//! told that we are busy.

mod address;
mod asking;
mod behaviour;
mod desk;
mod door;
mod frame;
mod gate;
mod judging;
mod node;
mod options;
mod publishing;
mod shared;
mod shelf;
mod sieve;
mod start;
#[cfg(test)]
mod tests;

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
    desk::Passes,
    frame::{Answer, Found, FrameError, Seen},
    judging::{Publication, Wish},
    node::Command,
    shared::{Shared, count},
};
pub use self::{options::Options, start::start};
use crate::{AskError, Dht, DhtError, Peer, Published, RecordKey, Reply, Status, limits};

/// This node's place in the network.
///
/// The network goes on until its task group is shut down, whoever holds this.
pub struct Kademlia {
    own: PeerId,
    policy: Policy,
    ask_timeout: std::time::Duration,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    wishes: mpsc::Sender<Wish>,
    asking: Arc<Passes>,
    publishing: Arc<Semaphore>,
    stop: CancellationToken,
}

impl Kademlia {
    async fn question(&self, peer: &Peer, key: &RecordKey) -> Result<Reply, AskError> {
        let id = address::id(&peer.id).ok_or(AskError::NoRoute)?;
        let _pass = self.asking.admit(id).ok_or(AskError::Overloaded)?;
        let addresses = self.addresses(peer);
        count(&self.shared.counts.asked);
        let mut asked = Asked {
            shared: &self.shared,
            ended: false,
        };
        let exchange = timeout(self.ask_timeout, self.exchange(id, addresses, key));
        let found = exchange.await.unwrap_or(Err(AskError::Transient));
        asked.ended = true;
        let reply = self.reply(found?);
        count(&self.shared.counts.answered);
        Ok(reply)
    }

    /// Those addresses of `peer` that may be dialled.
    fn addresses(&self, peer: &Peer) -> Vec<Multiaddr> {
        let texts = peer.addresses.iter().take(limits::ADDRESSES);
        let addresses: Vec<Multiaddr> = texts.filter_map(|text| text.parse().ok()).collect();
        let (good, refused) = self.policy.sift(&addresses);
        self.shared.refused_addresses(refused);
        good
    }

    async fn exchange(
        &self,
        peer: PeerId,
        addresses: Vec<Multiaddr>,
        key: &RecordKey,
    ) -> Result<Found, AskError> {
        let mut stream = self.open(peer, addresses).await?;
        let answer = async {
            frame::write_question(&mut stream, key).await?;
            frame::read_answer(&mut stream).await
        };
        match answer.await {
            Ok(Answer::Found(found)) => Ok(found),
            Ok(Answer::Busy) => Err(AskError::Refused),
            Err(FrameError::TooLarge) => Err(AskError::TooLarge),
            Err(FrameError::Malformed) => Err(AskError::Malformed),
            Err(FrameError::Io(_)) => Err(self.broken()),
        }
    }

    async fn open(&self, peer: PeerId, addresses: Vec<Multiaddr>) -> Result<Stream, AskError> {
        let (waiting, opened) = oneshot::channel();
        let command = Command::Open {
            peer,
            addresses,
            waiting,
        };
        match self.commands.try_send(command) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(AskError::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(AskError::Closed),
        }
        opened.await.unwrap_or_else(|_| Err(self.broken()))
    }

    fn broken(&self) -> AskError {
        match self.stop.is_cancelled() {
            true => AskError::Closed,
            false => AskError::Transient,
        }
    }

    fn reply(&self, found: Found) -> Reply {
        Reply {
            value: found.value,
            providers: self.peers(found.providers),
            closer: self.peers(found.closer),
        }
    }

    /// Peers as a stranger named them, with those of their addresses that he may name.
    fn peers(&self, seen: Vec<Seen>) -> Vec<Peer> {
        let others = seen.into_iter().filter(|(id, _)| *id != self.own);
        let peer = |(id, addresses): Seen| {
            let (good, refused) = self.policy.sift(&addresses);
            self.shared.refused_addresses(refused);
            Some(Peer {
                id: address::name(&id)?,
                addresses: good.iter().map(Multiaddr::to_string).collect(),
            })
        };
        others.filter_map(peer).collect()
    }
}

/// One question of ours; counted as abandoned unless it ended.
struct Asked<'a> {
    shared: &'a Shared,
    ended: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.ended {
            count(&self.shared.counts.abandoned);
        }
    }
}

impl Dht for Kademlia {
    fn here<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let (found, receiver) = oneshot::channel();
            let key = key.clone();
            let command = Command::Here { key, found };
            if self.commands.send(command).await.is_err() {
                return Reply::default();
            }
            self.reply(receiver.await.unwrap_or_default())
        })
    }

    fn ask<'a>(
        &'a self,
        peer: &'a Peer,
        key: &'a RecordKey,
    ) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(self.question(peer, key))
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
            let permit = Arc::clone(&self.publishing).try_acquire_owned();
            let permit = permit.map_err(|_| DhtError::Busy)?;
            let (done, published) = oneshot::channel();
            let wish = Wish::Publish(Publication {
                key,
                value,
                done,
                permit,
            });
            let sent = self.wishes.send(wish).await;
            sent.map_err(|_| DhtError::Closed)?;
            published.await.unwrap_or(Err(DhtError::Closed))
        })
    }

    fn withdraw<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (done, withdrawn) = oneshot::channel();
            let key = key.clone();
            if self.wishes.send(Wish::Withdraw { key, done }).await.is_ok() {
                // An error means that the node has stopped, and so has its telling.
                let _ = withdrawn.await;
            }
        })
    }

    fn status(&self) -> Status {
        self.shared.status()
    }
}
