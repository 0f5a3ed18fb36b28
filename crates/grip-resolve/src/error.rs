//! Why something could not be resolved.

use std::time::Duration;

use crate::InvalidKey;

/// Why a key has no answer now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResolveError {
    #[error(transparent)]
    Malformed(#[from] InvalidKey),
    /// It is not here, and all who were asked say that they do not have it.
    #[error("nobody who was asked knows it")]
    Unknown,
    /// Refused at once: nothing was begun.
    #[error("too much is being resolved already: try again in {} s", .retry_after.as_secs().max(1))]
    Busy { retry_after: Duration },
    #[error("no answer came within the deadline")]
    Timeout,
    /// Some who could know it failed too often of late, or cannot be reached.
    #[error(
        "not all who may know it can be asked at present: try again in {} s",
        .retry_after.as_secs().max(1)
    )]
    BreakerOpen { retry_after: Duration },
    /// Whether it is here is not known, and nobody else has it.
    #[error("what is served here cannot be read at present: try again in a second")]
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

    /// When the same request may have another answer.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Busy { retry_after } | Self::BreakerOpen { retry_after } => Some(*retry_after),
            Self::Unreadable => Some(Duration::from_secs(1)),
            Self::Malformed(_) | Self::Unknown | Self::Timeout | Self::Canceled => None,
        }
    }
}
