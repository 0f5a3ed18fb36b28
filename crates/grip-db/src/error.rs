//! What can go wrong with the database, in words an operator can act on.

use std::{io, path::PathBuf, sync::Arc};

use sqlx::migrate::MigrateError;

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
}

impl OpenError {
    pub(crate) fn new(path: PathBuf, source: sqlx::Error) -> Self {
        match Trouble::of(&source) {
            Trouble::Unreachable => Self::Unreachable { path, source },
            Trouble::Damaged => Self::Damaged { path, source },
            Trouble::Locked => Self::Locked { path, source },
            Trouble::Full => Self::Full { path, source },
            Trouble::ReadOnly => Self::ReadOnly { path, source },
            Trouble::Io | Trouble::Conflict | Trouble::Other => Self::Other { path, source },
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

/// Why work was not done. Whatever the reason, nothing of it was.
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
    #[error("the database may not be written: check its owner and its permissions")]
    ReadOnly(#[source] Arc<sqlx::Error>),
    #[error("the database file is damaged: stop the node and restore it from a backup")]
    Damaged(#[source] Arc<sqlx::Error>),
    #[error("the disk of the database reports errors")]
    Io(#[source] Arc<sqlx::Error>),
    #[error("the database refused the change")]
    Other(#[source] Arc<sqlx::Error>),
    #[error("the database server cannot be reached")]
    Unreachable(#[source] Arc<sqlx::Error>),
    #[error("the database did not answer in time")]
    Silent,
    #[error("the database undid the work because others were in its way: try again")]
    Conflict(#[source] Arc<sqlx::Error>),
    #[error("the work was given up")]
    GivenUp,
    #[error("the work panicked: this is a bug")]
    Panicked,
    #[error("the database is closed: the node is shutting down")]
    Closed,
}

impl DbError {
    pub(crate) fn new(source: sqlx::Error) -> Self {
        if matches!(source, sqlx::Error::PoolClosed) {
            return Self::Closed;
        }
        let trouble = Trouble::of(&source);
        let source = Arc::new(source);
        match trouble {
            Trouble::Full => Self::Full(source),
            Trouble::Locked => Self::Locked(source),
            Trouble::ReadOnly => Self::ReadOnly(source),
            Trouble::Damaged => Self::Damaged(source),
            Trouble::Io => Self::Io(source),
            Trouble::Unreachable => Self::Unreachable(source),
            Trouble::Conflict => Self::Conflict(source),
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
                | Self::Conflict(_)
        )
    }

    /// Says whether the reason lies in what was to be done and not in where.
    pub(crate) fn is_about_the_work(&self) -> bool {
        matches!(self, Self::Other(_) | Self::GivenUp)
    }
}

/// SQLite's result codes, as far as they call for different action.
#[derive(Clone, Copy)]
enum Trouble {
    Locked,
    ReadOnly,
    Io,
    Damaged,
    Full,
    Unreachable,
    Conflict,
    Other,
}

impl Trouble {
    fn of(error: &sqlx::Error) -> Self {
        if let Some(error) = postgres_error(error) {
            return Self::of_state(error.code());
        }
        let code = error.as_database_error().and_then(|e| e.code());
        let Some(code) = code.and_then(|code| code.parse::<u32>().ok()) else {
            return match error {
                sqlx::Error::Io(_) => Self::Io,
                sqlx::Error::PoolTimedOut => Self::Locked,
                // A row that cannot be read as what the schema promises.
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Damaged,
                _ => Self::Other,
            };
        };
        // The low byte is the primary code, the rest its details.
        match code & 0xff {
            5 | 6 => Self::Locked,
            8 => Self::ReadOnly,
            10 => Self::Io,
            11 | 26 => Self::Damaged,
            13 => Self::Full,
            14 => Self::Unreachable,
            _ => Self::Other,
        }
    }

    /// Postgres names its reasons by SQLSTATE; the first two characters are the class.
    fn of_state(code: &str) -> Self {
        match code {
            "53100" => Self::Full,
            "25006" | "42501" => Self::ReadOnly,
            "55P03" => Self::Locked,
            _ => match code.get(..2).unwrap_or_default() {
                "08" | "28" | "3D" | "53" | "57" => Self::Unreachable,
                "40" => Self::Conflict,
                "58" => Self::Io,
                "XX" => Self::Damaged,
                _ => Self::Other,
            },
        }
    }
}

fn postgres_error(error: &sqlx::Error) -> Option<&sqlx::postgres::PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}
