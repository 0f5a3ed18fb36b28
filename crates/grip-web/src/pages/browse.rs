//! Code and history of a repository as people read them.
//!
//! Only served repositories are shown, and of their objects only those that a branch, a tag or a
//! served pull request leads to: a commit of somebody else's in the same store is not part of this
//! repository.
//!
//! Pages leave processors to git: they are read at low priority, in this process in one of a few turns,
//! and by git itself with a pool of permits for each kind.

pub(crate) mod archive;
pub(crate) mod blame;
pub(crate) mod commit;
pub(crate) mod compare;
pub(crate) mod feed;
pub(crate) mod files;
pub(crate) mod grep;
mod histories;
mod links;
pub(crate) mod log;
pub(crate) mod moves;
pub(crate) mod raw;
pub(crate) mod refs;
pub(super) mod visit;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use grip_git::{InspectBounds, InspectError, RepoError};
use grip_tasks::LowPriorityThreads;
use tokio::sync::Semaphore;

use self::histories::Histories;
pub(super) use self::{
    links::RepositoryLinks,
    log::CommitLine,
    visit::{Header, Visit},
};
use crate::error::WebError;

/// What one answer of git may cost; the time is less than a page has.
pub(super) const GIT_BOUNDS: InspectBounds = InspectBounds {
    time: Duration::from_secs(4),
    bytes: 2 << 20,
};

/// What pages of code share.
pub(crate) struct Browsing {
    /// Turns of reading in this process.
    turns: Arc<Semaphore>,
    /// As many as there are turns.
    threads: LowPriorityThreads,
    histories: Histories,
}

impl Default for Browsing {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let turns = (processors / 2).max(1);
        let threads = LowPriorityThreads::new(turns);
        Self {
            turns: Arc::new(Semaphore::new(turns)),
            threads: threads.expect("threads that are not started yet need nothing"),
            histories: Histories::default(),
        }
    }
}

/// An object that cannot be read is not there for a visitor, unless the disk is to blame.
fn unreadable(error: RepoError) -> WebError {
    match error {
        RepoError::NotFound(_) => WebError::NoSuchRepository,
        error @ RepoError::NotFetched { .. } => WebError::PacksAway(Box::new(error)),
        RepoError::Missing { .. } => WebError::NotInRepository("object of that name"),
        RepoError::Unusable { oid, reason, .. } => {
            tracing::debug!(%oid, reason, "object cannot be shown");
            WebError::NotShown("an object is malformed or too large")
        }
        other => WebError::internal("a repository cannot be read", other),
    }
}

pub(super) fn not_inspected(error: InspectError) -> WebError {
    match error {
        InspectError::Repo(error) => unreadable(error),
        InspectError::TooSlow(_) | InspectError::Busy(_) => WebError::TooSlow,
        InspectError::Failed(reason) => {
            tracing::debug!(reason, "git cannot answer");
            WebError::NotShown("git cannot read it")
        }
        other => WebError::internal("git cannot be asked", other),
    }
}

/// Percent-encodes a path, but not what separates its parts.
pub(super) fn encode_path(path: &str) -> String {
    let parts: Vec<_> = path.split('/').map(grip_types::percent_encode).collect();
    parts.join("/")
}

/// `1.2 MiB`
pub(super) fn size_text(bytes: &u64) -> String {
    match *bytes {
        bytes @ 0..1024 => format!("{bytes} B"),
        bytes @ 1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        bytes => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
