//! Errors of the proxy.

use std::{fmt, time::Duration};

use grip_db::DbError;
use grip_git::{RepoError, TreeError};

use crate::SumDbError;

/// Why there is no answer. The go command prints these texts to its user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// Not here, or not to be had as a module; go then asks the next proxy of its list.
    #[error("not found: {what}: {reason}")]
    NotFound { what: String, reason: String },
    /// Its tag leads to something else than what was logged, which is not here any more. Not for the
    /// next proxy to answer.
    #[error("refused: {what}: {reason}")]
    Moved { what: String, reason: String },
    /// It is not what was logged for it, here or elsewhere. Not for the next proxy to answer.
    #[error("refused: {what}: {reason}")]
    Untrusted { what: String, reason: String },
    /// The host that has it does not answer now.
    #[error("{what} cannot be fetched now: {reason}; try again in {} s", .retry_after.as_secs())]
    Elsewhere {
        what: String,
        reason: String,
        retry_after: Duration,
    },
    #[error(
        "your network has had as much fetched from other hosts as one may in an hour; try again in {} s",
        .retry_after.as_secs()
    )]
    BudgetSpent { retry_after: Duration },
    #[error("too many modules are asked for at once; try again in {} s", .retry_after.as_secs())]
    Busy { retry_after: Duration },
    /// A fault on our side; the text for the log is the source's.
    #[error("the module cannot be read right now")]
    Unavailable { source: Fault },
}

/// What went wrong here, for the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    #[error("the index cannot be read")]
    Index(#[source] DbError),
    #[error("the repository cannot be read")]
    Repository(#[source] RepoError),
    #[error("the checksum database cannot be used")]
    Log(#[source] SumDbError),
    #[error("the work was cut short")]
    CutShort,
}

impl ProxyError {
    pub(super) fn not_found(what: impl fmt::Display, reason: impl fmt::Display) -> Self {
        Self::NotFound {
            what: what.to_string(),
            reason: reason.to_string(),
        }
    }

    /// Whether it says nothing of the module that was asked for: the load, or the database.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Elsewhere { .. } | Self::BudgetSpent { .. } => true,
            Self::Unavailable { source } => matches!(source, Fault::Index(_) | Fault::Log(_)),
            Self::NotFound { .. } | Self::Moved { .. } | Self::Untrusted { .. } => false,
        }
    }

    pub(super) fn cut_short() -> Self {
        let source = Fault::CutShort;
        Self::Unavailable { source }
    }

    /// The error for a request for `what` that a repository failed.
    pub(super) fn of_repository(what: impl fmt::Display, error: RepoError) -> Self {
        match error {
            RepoError::NotFound(_) => Self::not_found(what, "the repository is not here any more"),
            // Known to stay so: an error of ours would have go try again and again.
            RepoError::Unusable { .. } | RepoError::Missing { .. } => Self::not_found(what, error),
            error => Self::Unavailable {
                source: Fault::Repository(error),
            },
        }
    }

    pub(super) fn of_listing(what: impl fmt::Display, error: TreeError) -> Self {
        match error {
            TreeError::Repo(error) => Self::of_repository(what, error),
            bound => Self::not_found(what, bound),
        }
    }
}

impl From<DbError> for ProxyError {
    fn from(error: DbError) -> Self {
        Self::Unavailable {
            source: Fault::Index(error),
        }
    }
}

impl From<SumDbError> for ProxyError {
    fn from(error: SumDbError) -> Self {
        Self::Unavailable {
            source: Fault::Log(error),
        }
    }
}
