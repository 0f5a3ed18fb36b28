//! One connection while work is done on it.

use sqlx::{
    FromRow, PgConnection, SqliteConnection, error::BoxDynError, postgres::PgRow, sqlite::SqliteRow,
};

use crate::{
    Column, DbError, Engine, Statement, Value,
    value::{for_postgres, for_sqlite},
};

/// A row that both engines can give: a tuple, or a struct that derives [`sqlx::FromRow`].
pub trait FromRows:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<R> FromRows for R where
    R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

/// Runs statements; what it is part of (a transaction or none) is its giver's business.
pub struct Connection<'c> {
    link: Link<'c>,
    /// Topics to tell of once the work is committed.
    told: &'c mut Vec<String>,
}

pub(crate) enum Link<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

/// The same body for both engines: `$c` is the connection, `$q` the statement with its values.
macro_rules! run {
    ($self:ident, $statement:ident, $columns:expr, $values:expr, $make:path, $finish:ident) => {
        match &mut $self.link {
            Link::Sqlite(connection) => {
                let arguments = for_sqlite($columns, $values).map_err(unbound)?;
                $make($statement.sqlite, arguments)
                    .$finish(&mut **connection)
                    .await
            }
            Link::Postgres(connection) => {
                let arguments = for_postgres($columns, $values).map_err(unbound)?;
                $make($statement.postgres, arguments)
                    .$finish(&mut **connection)
                    .await
            }
        }
    };
}

impl<'c> Connection<'c> {
    pub(crate) fn new(link: Link<'c>, told: &'c mut Vec<String>) -> Self {
        Self { link, told }
    }

    pub fn engine(&self) -> Engine {
        match self.link {
            Link::Sqlite(_) => Engine::Sqlite,
            Link::Postgres(_) => Engine::Postgres,
        }
    }

    /// Runs a statement and says how many rows it changed.
    pub async fn execute(
        &mut self,
        statement: &Statement,
        values: &[Value],
    ) -> Result<u64, DbError> {
        self.execute_rows(statement, &[], values).await
    }

    pub async fn fetch_all<R: FromRows>(
        &mut self,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Vec<R>, DbError> {
        self.fetch_rows(statement, &[], values).await
    }

    pub async fn fetch_optional<R: FromRows>(
        &mut self,
        statement: &Statement,
        values: &[Value],
    ) -> Result<Option<R>, DbError> {
        let row: Result<Option<R>, _> = run!(
            self,
            statement,
            &[],
            values,
            sqlx::query_as_with,
            fetch_optional
        );
        row.map_err(DbError::new)
    }

    /// For statements that always give a row.
    pub async fn fetch_one<R: FromRows>(
        &mut self,
        statement: &Statement,
        values: &[Value],
    ) -> Result<R, DbError> {
        let row: Result<R, _> = run!(self, statement, &[], values, sqlx::query_as_with, fetch_one);
        row.map_err(DbError::new)
    }

    /// Runs a statement over many rows at once; see [`Column`] for the placeholders. The
    /// placeholders of `values` come after those of the columns.
    pub async fn execute_rows(
        &mut self,
        statement: &Statement,
        columns: &[Column],
        values: &[Value],
    ) -> Result<u64, DbError> {
        let changed = match &mut self.link {
            Link::Sqlite(connection) => {
                let arguments = for_sqlite(columns, values).map_err(unbound)?;
                let query = sqlx::query_with(statement.sqlite, arguments);
                let done = query.execute(&mut **connection).await;
                done.map(|done| done.rows_affected())
            }
            Link::Postgres(connection) => {
                let arguments = for_postgres(columns, values).map_err(unbound)?;
                let query = sqlx::query_with(statement.postgres, arguments);
                let done = query.execute(&mut **connection).await;
                done.map(|done| done.rows_affected())
            }
        };
        changed.map_err(DbError::new)
    }

    /// Like [`Connection::execute_rows`], for statements with `RETURNING`.
    pub async fn fetch_rows<R: FromRows>(
        &mut self,
        statement: &Statement,
        columns: &[Column],
        values: &[Value],
    ) -> Result<Vec<R>, DbError> {
        let rows: Result<Vec<R>, _> = run!(
            self,
            statement,
            columns,
            values,
            sqlx::query_as_with,
            fetch_all
        );
        rows.map_err(DbError::new)
    }

    /// Tells everybody who listens to `topic`, in every instance, once the work is committed.
    pub async fn notify(&mut self, topic: &str) -> Result<(), DbError> {
        if let Link::Postgres(connection) = &mut self.link {
            let told = sqlx::query("SELECT pg_notify($1, $2)")
                .bind(crate::topics::CHANNEL)
                .bind(topic)
                .execute(&mut **connection)
                .await;
            told.map_err(DbError::new)?;
        }
        if !self.told.iter().any(|told| told == topic) {
            self.told.push(topic.to_owned());
        }
        Ok(())
    }

    /// Runs text that has no values, such as `BEGIN`.
    pub(crate) async fn command(&mut self, text: &'static str) -> Result<(), DbError> {
        let done = match &mut self.link {
            Link::Sqlite(connection) => {
                let done = sqlx::raw_sql(text).execute(&mut **connection).await;
                done.map(|_| ())
            }
            Link::Postgres(connection) => {
                let done = sqlx::raw_sql(text).execute(&mut **connection).await;
                done.map(|_| ())
            }
        };
        done.map_err(DbError::new)
    }

    /// Has the engine read a statement without running it.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) async fn prepare(&mut self, statement: crate::Statement) -> Result<(), DbError> {
        use sqlx::{Executor as _, SqlSafeStr as _};
        let prepared = match &mut self.link {
            Link::Sqlite(connection) => {
                let text = statement.sqlite.into_sql_str();
                connection.prepare(text).await.map(|_| ())
            }
            Link::Postgres(connection) => {
                let text = statement.postgres.into_sql_str();
                connection.prepare(text).await.map(|_| ())
            }
        };
        prepared.map_err(DbError::new)
    }

    /// The same connection for a part of the work.
    pub(crate) fn part(&mut self) -> Connection<'_> {
        let link = match &mut self.link {
            Link::Sqlite(connection) => Link::Sqlite(connection),
            Link::Postgres(connection) => Link::Postgres(connection),
        };
        Connection::new(link, self.told)
    }
}

fn unbound(source: BoxDynError) -> DbError {
    DbError::new(sqlx::Error::Encode(source))
}
