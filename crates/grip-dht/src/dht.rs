//! The seams: the network as others see it, and what the network asks of the node.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::{AskError, DhtError, Peer, RecordKey, Status};

/// A network of nodes that keep records for each other.
pub trait Dht: Send + Sync + 'static {
    /// What this node has of the network under `key`: the value it holds for others, who told it
    /// that they have the thing, and the peers it knows that are nearest. Asks nobody.
    ///
    /// What we publish ourselves is not in it: that is no word of anybody else.
    fn here<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Reply>;

    /// Asks one peer what it has under `key`.
    ///
    /// Dropping the future closes the question at once, and the peer sees that. A peer that stays
    /// silent is given up after a while, in seconds; who is in a hurry sets his own deadline.
    fn ask<'a>(
        &'a self,
        peer: &'a Peer,
        key: &'a RecordKey,
    ) -> BoxFuture<'a, Result<Reply, AskError>>;

    /// Becomes a provider of `key` and, where there is a value, stores it on the nearest nodes.
    ///
    /// Without a value, the one that we published under `key` before is ours no more: it is not
    /// told anew, and the nodes that hold it let it expire.
    ///
    /// What is published is told anew from time to time until it is withdrawn. Dropping the
    /// future leaves what was begun to go on by itself.
    fn publish(
        &self,
        key: RecordKey,
        value: Option<Bytes>,
    ) -> BoxFuture<'_, Result<Published, DhtError>>;

    /// Stops providing `key` and storing it anew; what other nodes hold, they let expire.
    fn withdraw<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, ()>;

    /// How the network looks from here.
    fn status(&self) -> Status;
}

/// What a peer answered, or what lies here. Every part is bounded by [`crate::limits`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What lies under the key: bytes of a stranger.
    pub value: Option<Bytes>,
    /// Who, by what the peer was told, has the thing itself.
    pub providers: Vec<Peer>,
    /// Peers that the one asked believes to be nearer to the key, the nearest first.
    pub closer: Vec<Peer>,
}

/// How far a publication got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// How many other nodes took the value in hand, which they judge before they store it; 0 if
    /// there was none to store, or nobody to store it at.
    pub stored_at: usize,
}

/// What this node itself has, asked before its stored records when a peer asks.
pub trait Local: Send + Sync + 'static {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>>;
}

/// Decides what is worth storing for others.
pub trait Judge: Send + Sync + 'static {
    /// Looks at a value that is offered under `key`, where `held` is stored so far.
    ///
    /// Runs where it may use the processor, few at a time; it must not wait for anything.
    fn judge(&self, key: &RecordKey, offered: &[u8], held: Option<&[u8]>) -> Verdict;
}

/// What becomes of an offered value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Store this, which may be the joint of what was offered and what was held.
    Keep(Bytes),
    /// Nothing wrong and nothing new: what is held stays, and is held as long as if it were new.
    Ignore,
    /// Not what may lie under this key.
    Refuse(String),
}
