//! One connection while work is done on it.

use futures_util::future::BoxFuture;
use sqlx::{
    FromRow, PgConnection, SqliteConnection, error::BoxDynError, postgres::PgRow, sqlite::SqliteRow,
};

use crate::{
    Column, DbError, Engine, Statement, Value,
    value::{for_postgres, for_sqlite},
};

/// A row that both engines can give: a tuple, or a struct that has [`from_row!`](crate::from_row).
pub trait FromRows:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

impl<R> FromRows for R where
    R: for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
}

/// Runs statements; what it is part of (a transaction or none) is its giver's business.
///
/// Where one fails inside a transaction, the work as a whole fails, whatever its author makes of
/// the error: Postgres does nothing more in such a transaction, and SQLite is to do no other.
pub struct Connection<'c> {
    link: EngineConnection<'c>,
    state: &'c mut WorkState,
}

pub(crate) enum EngineConnection<'c> {
    Sqlite(&'c mut SqliteConnection),
    Postgres(&'c mut PgConnection),
}

/// What the giver of a connection wants to know afterwards.
#[derive(Default)]
pub(crate) struct WorkState {
    /// Topics to tell of once the work is committed.
    pub(crate) notified: Vec<String>,
    /// The first failure.
    pub(crate) failed: Option<DbError>,
}

impl WorkState {
    /// The outcome of a piece of work, which fails if one of its statements did.
    pub(crate) fn judge<T>(&mut self, outcome: Result<T, DbError>) -> Result<T, DbError> {
        match (self.failed.take(), outcome) {
            (Some(error), Ok(_)) => Err(error),
            (_, outcome) => outcome,
        }
    }
}

/// Rows as their engine gave them.
enum Rows {
    Sqlite(Vec<SqliteRow>),
    Postgres(Vec<PgRow>),
}

impl Rows {
    fn decode<R: FromRows>(&self) -> Result<Vec<R>, DbError> {
        match self {
            Self::Sqlite(rows) => {
                let rows: Result<_, _> = rows.iter().map(R::from_row).collect();
                rows.map_err(DbError::of_file)
            }
            Self::Postgres(rows) => {
                let rows: Result<_, _> = rows.iter().map(R::from_row).collect();
                rows.map_err(DbError::of_server)
            }
        }
    }
}

/// How many rows are asked for.
#[derive(Clone, Copy)]
enum Wanted {
    First,
    All,
}

/// The same body for both engines.
macro_rules! run {
    ($self:ident, $statement:ident, $columns:expr, $values:expr, |$query:ident, $connection:ident| $run:expr, $sqlite:expr, $postgres:expr) => {{
        let done = match &mut $self.link {
            EngineConnection::Sqlite(connection) => {
                let arguments = for_sqlite($columns, $values).map_err(unbound)?;
                let $query = sqlx::query_with($statement.text(Engine::Sqlite), arguments);
                let $connection = &mut **connection;
                $run.map($sqlite).map_err(DbError::of_file)
            }
            EngineConnection::Postgres(connection) => {
                let arguments = for_postgres($columns, $values).map_err(unbound)?;
                let $query = sqlx::query_with($statement.text(Engine::Postgres), arguments);
                let $connection = &mut **connection;
                $run.map($postgres).map_err(DbError::of_server)
            }
        };
        $self.recorded(done)
    }};
}

impl<'c> Connection<'c> {
    pub(crate) fn new(link: EngineConnection<'c>, state: &'c mut WorkState) -> Self {
        Self { link, state }
    }

    pub fn engine(&self) -> Engine {
        match self.link {
            EngineConnection::Sqlite(_) => Engine::Sqlite,
            EngineConnection::Postgres(_) => Engine::Postgres,
        }
    }

    /// Runs a statement and says how many rows it changed.
    pub fn execute<'a>(
        &'a mut self,
        statement: &'a Statement,
        values: &'a [Value],
    ) -> BoxFuture<'a, Result<u64, DbError>> {
        self.execute_rows(statement, &[], values)
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
        let rows = self.rows(statement, &[], values, Wanted::First).await?;
        let mut rows = self.recorded(rows.decode())?;
        Ok(rows.pop())
    }

    /// For statements that always give a row.
    pub async fn fetch_one<R: FromRows>(
        &mut self,
        statement: &Statement,
        values: &[Value],
    ) -> Result<R, DbError> {
        let row = self.fetch_optional(statement, values).await?;
        let missing = || match self.engine() {
            Engine::Sqlite => DbError::of_file(sqlx::Error::RowNotFound),
            Engine::Postgres => DbError::of_server(sqlx::Error::RowNotFound),
        };
        let row = row.ok_or_else(missing);
        self.recorded(row)
    }

    /// Runs a statement over many rows at once. The placeholders of the columns come after those
    /// of `values`.
    pub fn execute_rows<'a>(
        &'a mut self,
        statement: &'a Statement,
        columns: &'a [Column],
        values: &'a [Value],
    ) -> BoxFuture<'a, Result<u64, DbError>> {
        Box::pin(async move {
            run!(
                self,
                statement,
                columns,
                values,
                |query, connection| query.execute(connection).await,
                |done| done.rows_affected(),
                |done| done.rows_affected()
            )
        })
    }

    /// Like [`Connection::execute_rows`], for statements with `RETURNING`.
    pub async fn fetch_rows<R: FromRows>(
        &mut self,
        statement: &Statement,
        columns: &[Column],
        values: &[Value],
    ) -> Result<Vec<R>, DbError> {
        let rows = self.rows(statement, columns, values, Wanted::All).await?;
        self.recorded(rows.decode())
    }

    /// Reads rows without a type, so that the engines' clients are compiled once and not for each.
    fn rows<'a>(
        &'a mut self,
        statement: &'a Statement,
        columns: &'a [Column],
        values: &'a [Value],
        wanted: Wanted,
    ) -> BoxFuture<'a, Result<Rows, DbError>> {
        Box::pin(async move {
            run!(
                self,
                statement,
                columns,
                values,
                |query, connection| match wanted {
                    Wanted::First => {
                        let row = query.fetch_optional(connection).await;
                        row.map(Vec::from_iter)
                    }
                    Wanted::All => query.fetch_all(connection).await,
                },
                Rows::Sqlite,
                Rows::Postgres
            )
        })
    }

    /// Tells everybody who listens to `topic`, in every instance, once the work is committed.
    pub fn notify<'a>(&'a mut self, topic: &'a str) -> BoxFuture<'a, Result<(), DbError>> {
        Box::pin(async move {
            if let EngineConnection::Postgres(connection) = &mut self.link {
                let told = sqlx::query("SELECT pg_notify($1, $2)")
                    .bind(crate::topics::CHANNEL)
                    .bind(topic)
                    .execute(&mut **connection)
                    .await;
                self.recorded(told.map_err(DbError::of_server))?;
            }
            if !self.state.notified.iter().any(|told| told == topic) {
                self.state.notified.push(topic.to_owned());
            }
            Ok(())
        })
    }

    /// Runs text that has no values, such as `BEGIN`.
    pub(crate) async fn command(&mut self, text: &'static str) -> Result<(), DbError> {
        match &mut self.link {
            EngineConnection::Sqlite(connection) => {
                let done = sqlx::raw_sql(text).execute(&mut **connection).await;
                done.map(|_| ()).map_err(DbError::of_file)
            }
            EngineConnection::Postgres(connection) => {
                let done = sqlx::raw_sql(text).execute(&mut **connection).await;
                done.map(|_| ()).map_err(DbError::of_server)
            }
        }
    }

    /// Has the engine read a statement without running it.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) async fn prepare(&mut self, statement: &Statement) -> Result<(), DbError> {
        use sqlx::{Executor as _, SqlSafeStr as _};
        match &mut self.link {
            EngineConnection::Sqlite(connection) => {
                let text = statement.text(Engine::Sqlite).into_sql_str();
                let prepared = connection.prepare(text).await;
                prepared.map(|_| ()).map_err(DbError::of_file)
            }
            EngineConnection::Postgres(connection) => {
                let text = statement.text(Engine::Postgres).into_sql_str();
                let prepared = connection.prepare(text).await;
                prepared.map(|_| ()).map_err(DbError::of_server)
            }
        }
    }

    /// The same connection for a part of the work.
    pub(crate) fn reborrow(&mut self) -> Connection<'_> {
        let link = match &mut self.link {
            EngineConnection::Sqlite(connection) => EngineConnection::Sqlite(connection),
            EngineConnection::Postgres(connection) => EngineConnection::Postgres(connection),
        };
        Connection::new(link, self.state)
    }

    pub(crate) fn state(&mut self) -> &mut WorkState {
        self.state
    }

    fn recorded<T>(&mut self, done: Result<T, DbError>) -> Result<T, DbError> {
        if let Err(error) = &done
            && self.state.failed.is_none()
        {
            self.state.failed = Some(error.clone());
        }
        done
    }
}

fn unbound(source: BoxDynError) -> DbError {
    DbError::of_file(sqlx::Error::Encode(source))
}
