//! Translation of gateway errors to outcomes of a job.

use std::time::{SystemTime, UNIX_EPOCH};

use grip_github::{GitHubError, NextStep};
use grip_types::ErrorChain;

use crate::SourceError;

/// As the gateway itself judges it.
pub(super) fn step(error: &GitHubError) -> SourceError {
    match error.next_step() {
        NextStep::Wait { until, counts } => SourceError::Wait {
            until_ms: millis(until),
            reason: ErrorChain(error).to_string(),
            counts,
        },
        NextStep::Retry => SourceError::Transient(ErrorChain(error).to_string()),
        // Single sign-on, an abuse check or a proxy may deny today what they grant tomorrow.
        NextStep::GiveUp if matches!(error, GitHubError::AccessDenied { .. }) => {
            SourceError::Denied(ErrorChain(error).to_string())
        }
        NextStep::GiveUp => SourceError::Permanent(ErrorChain(error).to_string()),
    }
}

/// Of a list of repositories.
pub(super) fn of_list(error: &GitHubError) -> SourceError {
    match error {
        GitHubError::NotFound { .. } => SourceError::Denied(
            "the host knows no such organisation or user: is the name right, and may the token \
             see it?"
                .to_owned(),
        ),
        error => step(error),
    }
}

/// Of a question about one commit: nonsense about one says nothing about the others.
pub(super) fn about_one(error: &GitHubError) -> SourceError {
    match error {
        GitHubError::Malformed { .. } | GitHubError::AccessDenied { .. } => {
            SourceError::Permanent(ErrorChain(error).to_string())
        }
        error => step(error),
    }
}

fn millis(at: SystemTime) -> i64 {
    let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
