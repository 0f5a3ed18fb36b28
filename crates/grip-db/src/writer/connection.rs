//! The writer's connection, reopened after a failure.

use sqlx::{
    ConnectOptions as _, Connection as _, PgConnection, SqliteConnection,
    sqlite::SqliteConnectOptions,
};
use tokio::time::timeout;

use crate::{
    Connection, DbError,
    connection::{EngineConnection, WorkState},
    database::Host,
};

/// Where the writer's connection comes from.
#[derive(Clone)]
pub(super) enum Target {
    Sqlite(SqliteConnectOptions),
    Postgres(Host),
}

enum OpenConnection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

pub(super) struct WriterConnection {
    pub(super) source: Target,
    /// None after a failure: the next group begins on a fresh connection.
    held: Option<OpenConnection>,
}

impl WriterConnection {
    pub(super) async fn to_file(options: SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        let held = Some(OpenConnection::Sqlite(options.connect().await?));
        let source = Target::Sqlite(options);
        Ok(Self { source, held })
    }

    pub(super) fn to_server(host: Host) -> Self {
        Self {
            source: Target::Postgres(host),
            held: None,
        }
    }

    pub(super) async fn connection<'c>(
        &'c mut self,
        state: &'c mut WorkState,
    ) -> Result<Connection<'c>, DbError> {
        let held = match &mut self.held {
            Some(held) => held,
            none => none.insert(self.source.connect().await?),
        };
        let link = match held {
            OpenConnection::Sqlite(connection) => EngineConnection::Sqlite(connection),
            OpenConnection::Postgres(connection) => EngineConnection::Postgres(connection),
        };
        Ok(Connection::new(link, state))
    }

    /// Lets go of a connection that failed.
    pub(super) async fn discard(&mut self) {
        // Dropped is closed, for a server; a polite end could wait for one that hangs.
        if let Some(OpenConnection::Sqlite(connection)) = self.held.take() {
            let _ = connection.close().await;
        }
    }

    pub(super) async fn close(&mut self) {
        let closed = match (self.held.take(), &self.source) {
            (Some(OpenConnection::Sqlite(connection)), _) => connection.close().await,
            (Some(OpenConnection::Postgres(connection)), Target::Postgres(host)) => {
                // Dropped it ends as well.
                let closed = timeout(host.answer(), connection.close()).await;
                closed.unwrap_or(Ok(()))
            }
            _ => Ok(()),
        };
        if let Err(error) = closed {
            tracing::warn!(%error, "the database did not close cleanly; nothing is lost");
        }
    }
}

impl Target {
    async fn connect(&self) -> Result<OpenConnection, DbError> {
        Ok(match self {
            Self::Sqlite(options) => {
                let connected = options.connect().await;
                OpenConnection::Sqlite(connected.map_err(DbError::of_file)?)
            }
            Self::Postgres(host) => OpenConnection::Postgres(host.open().await?),
        })
    }
}

impl Connection<'_> {
    pub(super) async fn begin(&mut self) -> Result<(), DbError> {
        let text = match self.engine() {
            // The lock at once: a transaction that begins by reading may not get it later.
            crate::Engine::Sqlite => "BEGIN IMMEDIATE",
            crate::Engine::Postgres => "BEGIN",
        };
        self.command(text).await
    }
}
