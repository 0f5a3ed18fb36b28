//! Failures to fetch a module, which all who wait for it are told.

use std::time::Duration;

use grip_egress::EgressError;
use grip_git::ReceiveError;
use grip_limits::Refused;
use grip_types::ErrorChain;
use tokio::time::Instant;

use super::super::ProxyError;

/// How long clients should stay away where the host does not say.
const AGAIN: Duration = Duration::from_secs(30);

/// Why a module was not fetched. The texts are for who asked.
#[derive(Clone, Debug)]
pub(super) enum FetchFailure {
    /// The host does not have it, or it is no module that could be served.
    NotFound(String),
    /// It is not what others have logged.
    Untrusted(String),
    /// It may be had later.
    Later {
        reason: String,
        retry_after: Duration,
    },
    /// The host did not let us in, which may pass: another credential may do.
    Denied(String),
    /// The host says that there is nothing: another credential may do.
    Missing(String),
    /// The network that had it fetched has had as much as one may; another may do.
    BudgetSpent { retry_after: Duration },
}

impl FetchFailure {
    pub(super) fn later(reason: impl Into<String>) -> Self {
        Self::Later {
            reason: reason.into(),
            retry_after: AGAIN,
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Self::NotFound(reason)
            | Self::Untrusted(reason)
            | Self::Denied(reason)
            | Self::Missing(reason)
            | Self::Later { reason, .. } => reason,
            Self::BudgetSpent { .. } => "the network has had its share fetched",
        }
    }

    /// The same of a host that only says whether another is right.
    pub(super) fn into_later(self) -> Self {
        match self {
            Self::NotFound(reason) | Self::Denied(reason) | Self::Missing(reason) => {
                Self::later(reason)
            }
            other => other,
        }
    }

    pub(super) fn into_error(self, what: &str) -> ProxyError {
        let what = what.to_owned();
        match self {
            Self::NotFound(reason) | Self::Missing(reason) => ProxyError::NotFound { what, reason },
            // Hosts also say so to who asks too often. As not found, go would take the module from
            // where this node's log is not asked.
            Self::Denied(reason) => ProxyError::Elsewhere {
                what,
                reason,
                retry_after: AGAIN,
            },
            Self::Untrusted(reason) => ProxyError::Untrusted { what, reason },
            Self::BudgetSpent { retry_after } => ProxyError::BudgetSpent { retry_after },
            Self::Later {
                reason,
                retry_after,
            } => ProxyError::Elsewhere {
                what,
                reason,
                retry_after,
            },
        }
    }

    /// The host is at its limits.
    pub(super) fn of_refusal(refused: &Refused) -> Self {
        let wait = refused.retry_at.saturating_duration_since(Instant::now());
        Self::Later {
            reason: refused.to_string(),
            retry_after: wait.max(Duration::from_secs(1)),
        }
    }

    pub(super) fn of_egress(host: &str, error: &EgressError) -> Self {
        let said = format!("{host}: {error}");
        match error {
            EgressError::Throttled(refused) => Self::of_refusal(refused),
            EgressError::Status {
                status,
                retry_after,
                ..
            } => match (status.as_u16(), retry_after) {
                (_, Some(wait)) => Self::Later {
                    reason: said,
                    retry_after: *wait,
                },
                (401 | 403, None) => Self::Denied(said),
                (404 | 410 | 451, None) => Self::Missing(said),
                _ => Self::later(said),
            },
            EgressError::Forbidden(_) | EgressError::Redirect(_) => Self::NotFound(said),
            EgressError::TooBig { .. } => Self::NotFound(said),
            _ => Self::later(said),
        }
    }

    pub(super) fn of_receive(host: &str, error: &ReceiveError) -> Self {
        let broke_off = match error {
            ReceiveError::Client(error) => EgressError::of(error),
            _ => None,
        };
        if let Some(error) = broke_off {
            return Self::of_egress(host, error);
        }
        if error.is_ours() {
            tracing::warn!(host, error = %ErrorChain(error), "failed to take a fetched module");
            return Self::later("this node cannot take it right now");
        }
        let said = format!("{host}: {}", ErrorChain(error));
        match error {
            ReceiveError::Client(_) | ReceiveError::Truncated | ReceiveError::Stalled(_) => {
                Self::later(said)
            }
            _ => Self::NotFound(said),
        }
    }
}

/// What was found out while the zip was made.
impl From<ProxyError> for FetchFailure {
    fn from(error: ProxyError) -> Self {
        match error {
            ProxyError::NotFound { reason, .. } | ProxyError::Moved { reason, .. } => {
                Self::NotFound(reason)
            }
            error => {
                tracing::warn!(error = %ErrorChain(&error), "failed to make a fetched module");
                Self::later("this node cannot make its zip right now")
            }
        }
    }
}
