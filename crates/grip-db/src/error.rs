//! Errors of the database, in words an operator can act on.

mod code;
mod server;

use std::{io, path::PathBuf, sync::Arc};

use sqlx::migrate::MigrateError;

use self::code::ErrorCode;
pub use self::server::ServerError;
pub(crate) use self::server::shown;

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
        match ErrorCode::of(&source) {
            ErrorCode::Unreachable => Self::Unreachable { path, source },
            ErrorCode::Damaged => Self::Damaged { path, source },
            ErrorCode::Locked => Self::Locked { path, source },
            ErrorCode::Full => Self::Full { path, source },
            ErrorCode::ReadOnly => Self::ReadOnly { path, source },
            ErrorCode::Io | ErrorCode::Conflict | ErrorCode::Slow | ErrorCode::Other => {
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
    #[error("the database server cannot be reached ({})", unreachable_words(.0))]
    Unreachable(Arc<sqlx::Error>),
    /// Nobody can say whether it was done.
    #[error("the database did not answer in time")]
    TimedOut,
    #[error("all connections to the database server are in use: try again")]
    Busy,
    #[error("the database undid the work because others were in its way: try again")]
    Conflict(#[source] Arc<sqlx::Error>),
    #[error("another gripfast has taken the name of this node in the database")]
    NameTaken,
    #[error("the work was abandoned and rolled back")]
    Aborted,
    #[error("the work panicked: this is a bug")]
    Panicked,
    #[error("the database is closed: the node is shutting down")]
    Closed,
}

/// Why a server cannot be reached, in the words of a person; those of the client where there are none.
fn unreachable_words(error: &sqlx::Error) -> String {
    let sqlx::Error::Io(error) = error else {
        return error.to_string();
    };
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused",
        io::ErrorKind::TimedOut => "no answer in time",
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::UnexpectedEof => "the connection was closed",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "no route to it",
        _ if error.to_string().contains("failed to lookup address") => {
            "the host name has no address"
        }
        _ => return error.to_string(),
    };
    words.to_owned()
}

impl DbError {
    /// Of the embedded database.
    pub(crate) fn of_file(source: sqlx::Error) -> Self {
        if matches!(source, sqlx::Error::PoolClosed) {
            return Self::Closed;
        }
        let code = ErrorCode::of(&source);
        Self::new(code, source)
    }

    /// Of a connection to a server.
    pub(crate) fn of_server(source: sqlx::Error) -> Self {
        let code = ErrorCode::of_server(&source);
        Self::new(code, source)
    }

    fn new(code: ErrorCode, source: sqlx::Error) -> Self {
        let source = Arc::new(source);
        match code {
            ErrorCode::Full => Self::Full(source),
            ErrorCode::Locked => Self::Locked(source),
            ErrorCode::ReadOnly => Self::ReadOnly(source),
            ErrorCode::Damaged => Self::Damaged(source),
            ErrorCode::Io => Self::Io(source),
            ErrorCode::Unreachable => Self::Unreachable(source),
            ErrorCode::Conflict => Self::Conflict(source),
            ErrorCode::Slow => Self::TimedOut,
            ErrorCode::Other => Self::Other(source),
        }
    }

    /// Says whether the same request may succeed later without anybody's help but the operator's.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Full(_)
                | Self::Locked(_)
                | Self::ReadOnly(_)
                | Self::Io(_)
                | Self::Unreachable(_)
                | Self::TimedOut
                | Self::Busy
                | Self::Conflict(_)
        )
    }

    /// Says whether the reason lies in what was to be done and not in where.
    pub(crate) fn is_of_the_work(&self) -> bool {
        matches!(self, Self::Other(_) | Self::Aborted | Self::Conflict(_))
    }

    /// Says whether a connection that met it may be used again, once its transaction is undone.
    /// Not one to a server that may only be read: the one to write to may be elsewhere by now.
    pub(crate) fn keeps_connection(&self) -> bool {
        matches!(
            self,
            Self::Other(_) | Self::Aborted | Self::Conflict(_) | Self::Locked(_) | Self::Full(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_be_reached_is_told_in_words() {
        let error = |error| DbError::of_server(sqlx::Error::Io(error)).to_string();
        assert_eq!(
            error(io::ErrorKind::ConnectionRefused.into()),
            "the database server cannot be reached (connection refused)"
        );
        let name = "failed to lookup address information: Name or service not known";
        assert_eq!(
            error(io::Error::other(name)),
            "the database server cannot be reached (the host name has no address)"
        );
    }
}
