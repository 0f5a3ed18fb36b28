//! Errors between nodes.

use crate::limits;

/// Why a request to one peer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    #[error("the connection to the peer broke or timed out")]
    Transient,
    #[error("no address of the peer could be reached, or none may be dialled")]
    NoRoute,
    #[error("the peer's response is longer than {} bytes", limits::VALUE_BYTES)]
    TooLarge,
    #[error("the peer's response cannot be decoded")]
    Malformed,
    /// The peer said so at once; it is healthy.
    #[error("the peer is busy and refused the request")]
    Refused,
    #[error("the peer does not support requests of this kind")]
    Unsupported,
    /// Our own bound, not the peer's.
    #[error("this node has too many requests in flight")]
    Overloaded,
    #[error("this node is stopping")]
    Closed,
}

impl RequestError {
    /// Whether the same request to the same peer may succeed a moment later.
    pub fn may_retry(self) -> bool {
        matches!(self, Self::Transient | Self::NoRoute)
    }
}

/// Why the network could not be entered, or a record not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DhtError {
    #[error("this node has too many publications in flight: try again later")]
    Busy,
    #[error("this node publishes as many keys as it may")]
    Full,
    #[error("this node is stopping")]
    Closed,
    #[error(
        "a record has at most {} bytes, this one has {bytes}",
        limits::RECORD_BYTES
    )]
    TooLarge { bytes: usize },
    #[error("our own validation refused the record: {reason}")]
    Refused { reason: String },
    #[error("the key of this node cannot be used: {reason}")]
    InvalidKey { reason: String },
    #[error("{address} is no address to use here: {reason}")]
    InvalidAddress { address: String, reason: String },
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: String, reason: String },
    #[error("the network could not be set up: {reason}")]
    Setup { reason: String },
}
