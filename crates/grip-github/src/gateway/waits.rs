//! Who has to wait, and until when.

use std::time::SystemTime;

use grip_limits::Refused;
use tokio::time::Instant;

use crate::{budget::Denied, error::GitHubError};

/// The host is at its limits.
pub(super) fn throttled(refused: Refused) -> GitHubError {
    GitHubError::Throttled {
        until: moment(refused.retry_at),
        refused: Some(refused),
    }
}

/// Why no call was made. `was_refused`: another token was, by its rate limit.
pub(super) fn denied(why: Denied, was_refused: bool) -> GitHubError {
    match why {
        Denied::Spent(at) if was_refused => GitHubError::RateLimited {
            until: moment(at),
            secondary: false,
        },
        Denied::Spent(at) => GitHubError::Exhausted { until: moment(at) },
        Denied::Busy(at) => GitHubError::Throttled {
            until: moment(at),
            refused: None,
        },
        Denied::SetAside(at) => GitHubError::Unauthorised { until: moment(at) },
    }
}

/// The same moment by the clock on the wall.
fn moment(at: Instant) -> SystemTime {
    SystemTime::now() + at.saturating_duration_since(Instant::now())
}
