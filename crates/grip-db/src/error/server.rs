//! Errors of connecting to a database server, for the operator who configured it.

use std::{io, time::Duration};

use sqlx::{migrate::MigrateError, postgres::PgConnectOptions};

use super::{
    DbError,
    code::{ErrorCode, postgres_error},
    unreachable_words,
};

/// Why the database on a server could not be opened. No text contains the password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    #[error(
        "the database's URL cannot be read: it must look like postgres://user:password@host:5432/database"
    )]
    Url(#[source] sqlx::Error),
    #[error(
        "cannot reach the database server {server} ({}): is it running, and are its host and port right?",
        unreachable_words(.error)
    )]
    Unreachable { server: String, error: sqlx::Error },
    #[error("the database server {server} did not answer within {} s", .within.as_secs())]
    TimedOut { server: String, within: Duration },
    #[error(
        "the database server {server} does not let {user:?} in: check the user name, the password and the server's pg_hba.conf"
    )]
    Denied {
        server: String,
        user: String,
        source: sqlx::Error,
    },
    #[error(
        "the database server {server} has no such database: create it with createdb, or name another one"
    )]
    NoDatabase { server: String, source: sqlx::Error },
    #[error(
        "the database server {server} has no connection left: raise its max_connections, or end other clients"
    )]
    Crowded { server: String, source: sqlx::Error },
    #[error("the database server {server} is starting or stopping: try again in a moment")]
    NotNow { server: String, source: sqlx::Error },
    #[error(
        "cannot speak TLS with the database server {server}: check sslmode and sslrootcert in its URL"
    )]
    Tls { server: String, source: sqlx::Error },
    #[error(
        "the database {server} may only be read: is it a copy? Name the server that is written"
    )]
    ReadOnly { server: String, source: sqlx::Error },
    #[error(
        "{user:?} may not make tables in the database {server}: make it the owner of the database"
    )]
    Forbidden {
        server: String,
        user: String,
        source: sqlx::Error,
    },
    #[error("the disk of the database server {server} is full: free some space and start again")]
    Full { server: String, source: sqlx::Error },
    #[error(
        "the database {server} was written by a newer gripfast (migration {version} is unknown here): use that version"
    )]
    Newer { server: String, version: i64 },
    #[error(
        "the database {server} was written by another build of gripfast (migration {version} differs from ours): use that build"
    )]
    Foreign { server: String, version: i64 },
    #[error("cannot bring the database {server} up to date")]
    Migration {
        server: String,
        source: MigrateError,
    },
    #[error(
        "another gripfast calls itself {node:?} in the database {server} ({by}): give this one another node_name"
    )]
    NameTaken {
        server: String,
        node: String,
        by: String,
    },
    #[error("the database {server} cannot be used")]
    Unusable {
        server: String,
        #[source]
        error: DbError,
    },
    #[error("cannot open the database {server}")]
    Other { server: String, source: sqlx::Error },
}

/// Host, port and database, for messages.
pub(crate) fn shown(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}

impl ServerError {
    pub(crate) fn new(options: &PgConnectOptions, source: sqlx::Error) -> Self {
        let (server, user) = (shown(options), options.get_username().to_owned());
        match &source {
            // What the URL says of certificates is only found out now.
            sqlx::Error::Tls(_) | sqlx::Error::Configuration(_) => {
                return Self::Tls { server, source };
            }
            // A certificate that does not convince us.
            sqlx::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Self::Tls { server, source };
            }
            _ => {}
        }
        let code = postgres_error(&source).map(|error| error.code().to_owned());
        match code.as_deref().unwrap_or_default() {
            "53300" => return Self::Crowded { server, source },
            "57P01" | "57P02" | "57P03" => return Self::NotNow { server, source },
            "42501" => {
                return Self::Forbidden {
                    server,
                    user,
                    source,
                };
            }
            code if code.starts_with("28") => {
                return Self::Denied {
                    server,
                    user,
                    source,
                };
            }
            code if code.starts_with("3D") => return Self::NoDatabase { server, source },
            _ => {}
        }
        match ErrorCode::of_server(&source) {
            ErrorCode::Unreachable => Self::Unreachable {
                server,
                error: source,
            },
            ErrorCode::ReadOnly => Self::ReadOnly { server, source },
            ErrorCode::Full => Self::Full { server, source },
            _ => Self::Other { server, source },
        }
    }

    pub(crate) fn migration(options: &PgConnectOptions, source: MigrateError) -> Self {
        let server = shown(options);
        match source {
            MigrateError::VersionMissing(version) => Self::Newer { server, version },
            MigrateError::VersionMismatch(version) => Self::Foreign { server, version },
            MigrateError::Execute(source) => Self::new(options, source),
            MigrateError::ExecuteMigration(source, version) => {
                match Self::new(options, source) {
                    // The plain case says nothing of the migration, so put it back together.
                    Self::Other { server, source } => Self::Migration {
                        server,
                        source: MigrateError::ExecuteMigration(source, version),
                    },
                    told => told,
                }
            }
            source => Self::Migration { server, source },
        }
    }

    /// Says whether it is likely to be over in a moment, as where both start together.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::NotNow { .. } | Self::Crowded { .. }
        )
    }
}
