//! Errors of the resolver.

use std::time::Duration;

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
    /// Refused at once: nothing was begun.
    #[error("too many resolutions are in flight: try again in {} s", .retry_after.as_secs().max(1))]
    Busy { retry_after: Duration },
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

impl ResolveError {
    /// One word for metrics and for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Unknown => "unknown",
            Self::Busy { .. } => "busy",
            Self::Timeout => "timeout",
            Self::BreakerOpen { .. } => "breaker_open",
            Self::Unreadable => "unreadable",
            Self::Canceled => "canceled",
        }
    }

    /// When the same request may succeed.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after } | Self::BreakerOpen { retry_after } => Some(*retry_after),
            Self::Unreadable => Some(Duration::from_secs(1)),
            Self::Malformed(_) | Self::Unknown | Self::Timeout | Self::Canceled => None,
        }
    }
}
