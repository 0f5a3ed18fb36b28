//! Errors of the resolver.

use std::{fmt, time::Duration};

use crate::InvalidKey;

/// Why a key was not resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    #[error(transparent)]
    Malformed(#[from] InvalidKey),
    /// It is not local, and no peer has it.
    #[error("neither this node nor any peer has it")]
    Unknown,
    /// Refused at once by a bound of this node: nothing was begun.
    #[error("{cause}: try again in {} s", .retry_after.as_secs().max(1))]
    Busy {
        cause: BusyCause,
        retry_after: Duration,
    },
    /// Peers that may have it refused the request as busy; this node has room.
    #[error("peers that may have it are busy: try again in {} s", .retry_after.as_secs().max(1))]
    PeersBusy { retry_after: Duration },
    #[error("no peer responded within the deadline")]
    Timeout,
    /// Some peers that may have it failed too often, or cannot be reached.
    #[error(
        "not all peers that may have it can be reached: try again in {} s",
        .retry_after.as_secs().max(1)
    )]
    BreakerOpen { retry_after: Duration },
    /// Whether it is local is not known, and no peer has it.
    #[error("the local repositories cannot be read: try again in a second")]
    Unreadable,
    #[error("this node is stopping")]
    Canceled,
}

/// The bound of this node that refused a resolution or a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyCause {
    /// As many resolutions wait for a worker as may.
    QueueFull,
    /// Its turn would come too late for its deadline.
    ExpectedWait,
    /// As many requests to peers are in flight as may.
    OutboundRequests,
    /// As many commands wait for the current one as may.
    Commands,
}

impl fmt::Display for BusyCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueueFull => "too many resolutions wait for a worker",
            Self::ExpectedWait => "a worker would be free too late for the deadline",
            Self::OutboundRequests => "too many requests to peers are in flight",
            Self::Commands => "too many commands wait for the current one",
        })
    }
}

impl ResolveError {
    /// One word for metrics and for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Unknown => "unknown",
            Self::Busy { .. } => "busy",
            Self::PeersBusy { .. } => "peers_busy",
            Self::Timeout => "timeout",
            Self::BreakerOpen { .. } => "breaker_open",
            Self::Unreadable => "unreadable",
            Self::Canceled => "canceled",
        }
    }

    /// When the same request may succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after, .. }
            | Self::PeersBusy { retry_after }
            | Self::BreakerOpen { retry_after } => Some(*retry_after),
            Self::Unreadable => Some(Duration::from_secs(1)),
            Self::Malformed(_) | Self::Unknown | Self::Timeout | Self::Canceled => None,
        }
    }
}
