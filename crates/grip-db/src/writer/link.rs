//! The writer's connection: made anew after a failure.

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool, Postgres, SqliteConnection, pool::PoolConnection,
    sqlite::SqliteConnectOptions,
};

use crate::{Connection, DbError, connection::Link};

/// Where the writer's connection comes from.
#[derive(Clone)]
pub(crate) enum Source {
    Sqlite(SqliteConnectOptions),
    Postgres(PgPool),
}

enum Held {
    Sqlite(SqliteConnection),
    Postgres(PoolConnection<Postgres>),
}

pub(super) struct Line {
    pub(super) source: Source,
    /// None after a failure: the next group begins on a fresh connection.
    held: Option<Held>,
}

impl Line {
    pub(super) async fn connect(source: Source) -> Result<Self, sqlx::Error> {
        let held = Some(source.connect().await?);
        Ok(Self { source, held })
    }

    pub(super) async fn connection<'c>(
        &'c mut self,
        told: &'c mut Vec<String>,
    ) -> Result<Connection<'c>, DbError> {
        let held = match &mut self.held {
            Some(held) => held,
            none => none.insert(self.source.connect().await.map_err(DbError::new)?),
        };
        let link = match held {
            Held::Sqlite(connection) => Link::Sqlite(connection),
            Held::Postgres(connection) => Link::Postgres(connection),
        };
        Ok(Connection::new(link, told))
    }

    /// Lets go of a connection that failed.
    pub(super) async fn hang_up(&mut self) {
        match self.held.take() {
            Some(Held::Sqlite(connection)) => {
                let _ = connection.close().await;
            }
            Some(Held::Postgres(connection)) => drop(connection.detach()),
            None => {}
        }
    }

    pub(super) async fn close(&mut self) {
        let closed = match self.held.take() {
            Some(Held::Sqlite(connection)) => connection.close().await,
            Some(Held::Postgres(connection)) => connection.close().await,
            None => Ok(()),
        };
        if let Err(error) = closed {
            tracing::warn!(%error, "the database did not close cleanly; nothing is lost");
        }
    }
}

impl Source {
    async fn connect(&self) -> Result<Held, sqlx::Error> {
        Ok(match self {
            Self::Sqlite(options) => Held::Sqlite(options.connect().await?),
            Self::Postgres(pool) => Held::Postgres(pool.acquire().await?),
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
