//! Failures of the node, as opposed to refusals.

use std::io;

use grip_db::DbError;
use grip_git::{DiskFull, DiskUser, RefUpdateError, RepoError};
use grip_nostr::RepoAddr;
use grip_purgatory::Full;
use grip_relay::{Answer, WriteError};
use grip_tasks::Busy;
use grip_types::Identifier;

use crate::admission::ViewError;

/// Why something that was allowed could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum GraspError {
    #[error(transparent)]
    View(#[from] ViewError),
    #[error("the journal of held events could not be written")]
    Journal(#[from] DbError),
    #[error("the event could not be stored")]
    Write(#[from] WriteError),
    #[error("the refs of {repository} could not be changed")]
    Refs {
        repository: RepoAddr,
        source: Box<RefUpdateError>,
    },
    #[error("{repository} could not be read or changed on disk")]
    Repository {
        repository: RepoAddr,
        source: Box<RepoError>,
    },
    #[error("the objects of {identifier} could not be stored")]
    Objects {
        identifier: Identifier,
        source: io::Error,
    },
    #[error("the uploads staged in {repository} could not be read or changed")]
    Staged {
        repository: RepoAddr,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the object stores could not be read or changed")]
    Stores(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    DiskFull(#[from] DiskFull),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("too many changes of this repository are waiting; try again")]
    Busy(#[from] Busy),
    #[error("the server is stopping; try again")]
    Stopped,
}

impl GraspError {
    pub(crate) fn refs(repository: &RepoAddr) -> impl FnOnce(RefUpdateError) -> Self + use<> {
        let repository = repository.clone();
        |source| Self::Refs {
            repository,
            source: Box::new(source),
        }
    }

    pub(crate) fn staged<E>(repository: &RepoAddr) -> impl FnOnce(E) -> Self + use<E>
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        let repository = repository.clone();
        |source| Self::Staged {
            repository,
            source: Box::new(source),
        }
    }

    pub(crate) fn repository(repository: &RepoAddr) -> impl FnOnce(RepoError) -> Self + use<> {
        let repository = repository.clone();
        |source| Self::Repository {
            repository,
            source: Box::new(source),
        }
    }

    /// Says whether the sender is to slow down, as opposed to us having failed.
    pub(crate) fn is_overload(&self) -> bool {
        match self {
            Self::Full(_) | Self::Busy(_) => true,
            Self::DiskFull(full) => full.disk_user == DiskUser::Stranger,
            _ => false,
        }
    }

    /// Why a repository could not be looked at to its end, if that is it: nothing was found wrong.
    pub(crate) fn unread(&self) -> Option<String> {
        match self {
            Self::Repository { source, .. } => match &**source {
                unread @ RepoError::Unread { .. } => Some(unread.to_string()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The `OK` that tells the sender, after telling the operator.
    pub(crate) fn answer(&self) -> Answer {
        if self.is_overload() {
            return Answer::refused(format!("rate-limited: {self}"));
        }
        self.log("failed to process an event");
        Answer::refused(match self {
            Self::Journal(why) => format!("error: {self}: {why}"),
            _ => format!("error: {self}"),
        })
    }

    /// Tells the operator, with all causes.
    pub(crate) fn log(&self, what: &'static str) {
        tracing::error!(error = self as &dyn std::error::Error, "{what}");
    }
}
