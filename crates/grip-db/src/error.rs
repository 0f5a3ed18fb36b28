//! What can go wrong with the database, in words an operator can act on.

mod server;
mod trouble;

use std::{io, path::PathBuf, sync::Arc};

use sqlx::migrate::MigrateError;

pub use self::server::ServerError;
pub(crate) use self::server::shown;
use self::trouble::Trouble;

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("cannot create the directory {path}")]
    Directory { path: PathBuf, source: io::Error },
    #[error("cannot open or create {path}: check that the directory exists and may be written")]
    Unreachable { path: PathBuf, source: sqlx::Error },
    #[error(
        "{path} is damaged or is no SQLite database: restore it from a backup, or move it away to begin with an empty one"
    )]
    Damaged { path: PathBuf, source: sqlx::Error },
    #[error("{path} is locked by another process: is a second gripfast using it?")]
    Locked { path: PathBuf, source: sqlx::Error },
    #[error("the disk of {path} is full: free some space and start again")]
    Full { path: PathBuf, source: sqlx::Error },
    #[error("{path} may not be written: check its owner and its permissions")]
    ReadOnly { path: PathBuf, source: sqlx::Error },
    #[error(
        "{path} was written by a newer gripfast (migration {version} is unknown here): use that version"
    )]
    Newer { path: PathBuf, version: i64 },
    #[error(
        "{path} was written by another build of gripfast (migration {version} differs from ours): use that build"
    )]
    Foreign { path: PathBuf, version: i64 },
    #[error("cannot bring {path} up to date")]
    Migration { path: PathBuf, source: MigrateError },
    #[error("cannot open {path}")]
    Other { path: PathBuf, source: sqlx::Error },
    #[error(transparent)]
    Server(#[from] ServerError),
}

impl OpenError {
    pub(crate) fn new(path: PathBuf, source: sqlx::Error) -> Self {
        match Trouble::of(&source) {
            Trouble::Unreachable => Self::Unreachable { path, source },
            Trouble::Damaged => Self::Damaged { path, source },
            Trouble::Locked => Self::Locked { path, source },
            Trouble::Full => Self::Full { path, source },
            Trouble::ReadOnly => Self::ReadOnly { path, source },
            Trouble::Io | Trouble::Conflict | Trouble::Slow | Trouble::Other => {
                Self::Other { path, source }
            }
        }
    }

    pub(crate) fn migration(path: PathBuf, source: MigrateError) -> Self {
        match source {
            MigrateError::VersionMissing(version) => Self::Newer { path, version },
            MigrateError::VersionMismatch(version) => Self::Foreign { path, version },
            MigrateError::Execute(source) => Self::new(path, source),
            MigrateError::ExecuteMigration(source, version) => {
                match Self::new(path, source) {
                    // The plain case says nothing of the migration, so put it back together.
                    Self::Other { path, source } => Self::Migration {
                        path,
                        source: MigrateError::ExecuteMigration(source, version),
                    },
                    told => told,
                }
            }
            source => Self::Migration { path, source },
        }
    }
}

/// Why work was not done. Nothing of it was, unless the text says otherwise.
///
/// The source is shared because one failed commit may answer many callers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DbError {
    #[error("the disk of the database is full: free some space, then try again")]
    Full(#[source] Arc<sqlx::Error>),
    #[error(
        "the database is locked by another process: is a second gripfast or a backup using it?"
    )]
    Locked(#[source] Arc<sqlx::Error>),
    #[error(
        "the database may not be written: check its owner and its permissions, or whether the server is a read-only copy"
    )]
    ReadOnly(#[source] Arc<sqlx::Error>),
    #[error("the database is damaged: stop the node and restore it from a backup")]
    Damaged(#[source] Arc<sqlx::Error>),
    #[error("the disk of the database reports errors")]
    Io(#[source] Arc<sqlx::Error>),
    #[error("the database refused the change")]
    Other(#[source] Arc<sqlx::Error>),
    /// If the line broke during the commit, nobody can say whether it was done.
    #[error("the database server cannot be reached")]
    Unreachable(#[source] Arc<sqlx::Error>),
    /// Nobody can say whether it was done.
    #[error("the database did not answer in time")]
    Silent,
    #[error("all connections to the database server are in use: try again")]
    Busy,
    #[error("the database undid the work because others were in its way: try again")]
    Conflict(#[source] Arc<sqlx::Error>),
    #[error("another gripfast has taken the name of this node in the database")]
    NameTaken,
    #[error("the work was given up")]
    GivenUp,
    #[error("the work panicked: this is a bug")]
    Panicked,
    #[error("the database is closed: the node is shutting down")]
    Closed,
}

impl DbError {
    /// Of the embedded database.
    pub(crate) fn of_file(source: sqlx::Error) -> Self {
        if matches!(source, sqlx::Error::PoolClosed) {
            return Self::Closed;
        }
        let trouble = Trouble::of(&source);
        Self::new(trouble, source)
    }

    /// Of a connection to a server.
    pub(crate) fn of_line(source: sqlx::Error) -> Self {
        let trouble = Trouble::of_line(&source);
        Self::new(trouble, source)
    }

    fn new(trouble: Trouble, source: sqlx::Error) -> Self {
        let source = Arc::new(source);
        match trouble {
            Trouble::Full => Self::Full(source),
            Trouble::Locked => Self::Locked(source),
            Trouble::ReadOnly => Self::ReadOnly(source),
            Trouble::Damaged => Self::Damaged(source),
            Trouble::Io => Self::Io(source),
            Trouble::Unreachable => Self::Unreachable(source),
            Trouble::Conflict => Self::Conflict(source),
            Trouble::Slow => Self::Silent,
            Trouble::Other => Self::Other(source),
        }
    }

    /// Says whether the same call may succeed later without anybody's help but the operator's.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Full(_)
                | Self::Locked(_)
                | Self::ReadOnly(_)
                | Self::Io(_)
                | Self::Unreachable(_)
                | Self::Silent
                | Self::Busy
                | Self::Conflict(_)
        )
    }

    /// Says whether the reason lies in what was to be done and not in where.
    pub(crate) fn is_about_the_work(&self) -> bool {
        matches!(self, Self::Other(_) | Self::GivenUp | Self::Conflict(_))
    }

    /// Says whether a connection that met it may be used again, once its transaction is undone.
    /// Not one to a server that may only be read: the one to write to may be elsewhere by now.
    pub(crate) fn spares_the_line(&self) -> bool {
        matches!(
            self,
            Self::Other(_) | Self::GivenUp | Self::Conflict(_) | Self::Locked(_) | Self::Full(_)
        )
    }
}
