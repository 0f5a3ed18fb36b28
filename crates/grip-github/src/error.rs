//! Errors of calls, and what follows from them.

use std::time::SystemTime;

use grip_egress::{EgressError, Forbidden};
use grip_limits::Refused;

/// Why a call brought nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitHubError {
    /// The host refused by a rate limit. `secondary`: a limit on bursts, which binds all tokens.
    #[error("the host refused the call by a {}", limit_name(*.secondary))]
    RateLimited { until: SystemTime, secondary: bool },
    /// Nothing is left of any token's budget; no call was made.
    #[error("the budget of calls is spent")]
    Exhausted { until: SystemTime },
    /// As much is in flight as may be, or the host is to be left alone; no call was made.
    #[error("the host cannot be asked right now")]
    Throttled {
        until: SystemTime,
        #[source]
        refused: Option<Refused>,
    },
    /// The host accepts none of the tokens, or wants one. They are tried again at `until`.
    #[error("the host accepts no token that is configured; they may have expired")]
    Unauthorised { until: SystemTime },
    #[error("the host denies access{}", quoted(.message))]
    AccessDenied { message: String },
    #[error("it is not there{}", quoted(.message))]
    NotFound { message: String },
    #[error("it is gone for good")]
    Gone,
    #[error("the host failed with status {status}")]
    Server { status: u16 },
    #[error("the host did not respond, or not to the end")]
    Unreachable(#[source] EgressError),
    /// The response is not what was asked for.
    #[error("the host sent a malformed response: {what}")]
    Malformed { what: String },
    #[error("the response is larger than {limit} bytes")]
    TooBig { limit: u64 },
    #[error("the host refused the call with status {status}{}", quoted(.message))]
    Client { status: u16, message: String },
    /// The caller's mistake.
    #[error("{path:?} is not a path of the API or of a file")]
    Path { path: String },
    /// The host must not be asked at all.
    #[error(transparent)]
    Forbidden(Forbidden),
}

/// What to do after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Try again at that time. `counts`: as a try of the few that a job has; otherwise no call
    /// was made, or none of the job's own fault.
    Wait { until: SystemTime, counts: bool },
    /// Try again soon, a few times.
    Retry,
    /// Trying again does not help.
    GiveUp,
}

impl GitHubError {
    pub fn next_step(&self) -> NextStep {
        match *self {
            Self::RateLimited { until, .. } => NextStep::Wait {
                until,
                counts: true,
            },
            Self::Exhausted { until }
            | Self::Throttled { until, .. }
            | Self::Unauthorised { until } => NextStep::Wait {
                until,
                counts: false,
            },
            // What stands between us and the host can garble an answer for a while.
            Self::Server { .. } | Self::Unreachable(_) | Self::Malformed { .. } => NextStep::Retry,
            Self::Client {
                status: 408 | 425, ..
            } => NextStep::Retry,
            Self::AccessDenied { .. }
            | Self::NotFound { .. }
            | Self::Gone
            | Self::TooBig { .. }
            | Self::Client { .. }
            | Self::Path { .. }
            | Self::Forbidden(_) => NextStep::GiveUp,
        }
    }

    pub(crate) fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed { what: what.into() }
    }
}

impl From<EgressError> for GitHubError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::Forbidden(forbidden) => Self::Forbidden(forbidden),
            EgressError::TooBig { limit } => Self::TooBig { limit },
            EgressError::Unusable(why) => Self::malformed(why.to_string()),
            other => Self::Unreachable(other),
        }
    }
}

fn limit_name(secondary: bool) -> &'static str {
    if secondary {
        "secondary rate limit"
    } else {
        "rate limit"
    }
}

fn quoted(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message:?}"),
    }
}
