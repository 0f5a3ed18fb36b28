//! The network as its users see it, and what it asks of them.

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::{DhtError, Peer, PeerName, RecordKey, RequestError, Status};

/// The response of one peer.
pub type RequestFuture<'a> = BoxFuture<'a, Result<Response, RequestError>>;

/// The end of a publication.
pub type PublishFuture<'a> = BoxFuture<'a, Result<Published, DhtError>>;

/// A network of nodes that store records for each other.
pub trait Dht: Send + Sync + 'static {
    /// This node's own view of `key`, without a request: the value that it stores for others, the
    /// providers that it knows, and the nearest peers of its routing table.
    ///
    /// Without values of our own: they are no response of another node.
    fn local_response<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Response>;

    /// Sends a request for `key` to one peer.
    ///
    /// Dropping the future closes the stream at once, and the peer sees that; a dial that nobody
    /// else waits for ends as well. A silent peer is given up after some seconds; a caller in a hurry
    /// sets its own deadline.
    fn request<'a>(&'a self, peer: &'a Peer, key: &'a RecordKey) -> RequestFuture<'a>;

    /// Whether a connection with `peer` stands. Only then is it the peer that is silent: else an
    /// address is, which anybody may have named.
    fn is_connected(&self, peer: &PeerName) -> bool;

    /// Becomes a provider of `key` and, where there is a value, stores it on the nearest nodes.
    ///
    /// Without a value, one that was published under `key` before is ours no more: the nodes that
    /// hold it let it expire.
    ///
    /// Records expire, so what is to stay is published again from time to time. Dropping the future
    /// does not stop a publication that was begun.
    fn publish(&self, key: RecordKey, value: Option<Bytes>) -> PublishFuture<'_>;

    /// Stops providing `key`; what other nodes hold, they let expire.
    fn withdraw<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, ()>;

    fn status(&self) -> Status;
}

/// The response of a peer, or of this node itself. Every part is bounded by [`crate::limits`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The value under the key: bytes of a stranger.
    pub value: Option<Bytes>,
    /// Nodes that said that they have what the key names.
    pub providers: Vec<Peer>,
    /// Peers nearer to the key, by the routing table of the one that responds; the nearest first.
    pub closer: Vec<Peer>,
}

/// The reach of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// How many other nodes accepted the value for validation; 0 if there was no value, or no
    /// other node.
    pub stored_at: usize,
}

/// Values that this node has itself; they take precedence over its stored records.
pub trait LocalRecords: Send + Sync + 'static {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>>;

    /// The response about `key` as it leaves this node. Members that lie in tests alter it.
    #[cfg(any(test, feature = "testing"))]
    fn alter(&self, _: &RecordKey, response: Response) -> Response {
        response
    }
}

/// Decides which records this node stores for others.
pub trait RecordValidator: Send + Sync + 'static {
    /// Validates a value that is offered under `key`, where `held` is stored so far.
    ///
    /// Runs on a blocking thread, one at a time; it must not wait for anything.
    fn validate(&self, key: &RecordKey, offered: &[u8], held: Option<&[u8]>) -> Verdict;
}

/// The result of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Store this, which may be the joint of what was offered and what was held.
    Keep(Bytes),
    /// Valid and not newer: what is held stays, for as long as if it were new.
    Ignore,
    /// Invalid under this key.
    Refuse(String),
}
