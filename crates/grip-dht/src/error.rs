//! What can go wrong between nodes.

use crate::limits;

/// Why a question to one peer brought no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    #[error("the connection to the peer broke or stayed silent")]
    Transient,
    #[error("no address of the peer could be reached, or none may be dialled")]
    NoRoute,
    #[error("the peer's answer is longer than {} bytes allow", limits::VALUE_BYTES)]
    TooLarge,
    #[error("the peer's answer cannot be read")]
    Malformed,
    /// The peer said so at once; it is healthy.
    #[error("the peer has too many questions to answer and refused ours")]
    Refused,
    #[error("the peer does not answer questions of this kind")]
    Unsupported,
    /// Our own bound, not the peer's.
    #[error("this node has too many questions under way")]
    Overloaded,
    #[error("this node is stopping")]
    Closed,
}

impl AskError {
    /// Whether the same question to the same peer may succeed a moment later.
    pub fn may_retry(self) -> bool {
        matches!(self, Self::Transient | Self::NoRoute)
    }

    /// Whether it speaks against the peer, rather than against us or for its prudence.
    pub fn is_fault_of_peer(self) -> bool {
        !matches!(self, Self::Refused | Self::Overloaded | Self::Closed)
    }
}

/// Why the network could not be entered or told something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DhtError {
    #[error("this node has too much to tell the network already: try again later")]
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
    #[error("our own judgement refused the record: {reason}")]
    Refused { reason: String },
    /// The rest is about starting.
    #[error("the key of this node cannot be used: {reason}")]
    InvalidKey { reason: String },
    #[error("{address} is no address to use here: {reason}")]
    InvalidAddress { address: String, reason: String },
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: String, reason: String },
    #[error("the network could not be set up: {reason}")]
    Setup { reason: String },
}
