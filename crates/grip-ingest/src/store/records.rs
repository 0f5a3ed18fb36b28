//! People and repositories.

use grip_db::{Column, Connection, DbError, Statement};
use grip_queue::{Lease, Queue};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use sqlx::{Column as _, Error, FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

use super::{Store, field_sql, finish_in, sql};
use crate::{
    extract::{self, Malformed, Record},
    fields::{Field, Kind, REPOSITORY, USER},
};

/// The kinds of records that are fetched from GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RecordKind {
    User,
    Repository,
}

/// What is known about a person or a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) name: Option<String>,
    pub(crate) etag: Option<String>,
    pub(crate) fetched_at: i64,
}

grip_db::from_row!(Known {
    name,
    etag,
    fetched_at
});

/// A person or a repository as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stored {
    /// By column: texts, integers, flags, moments in milliseconds since 1970, JSON.
    pub fields: Map<String, Json>,
    /// As GitHub wrote it.
    pub raw: String,
    /// Columns that are empty because the value was of another kind.
    pub unfit: Vec<String>,
    pub fetched_at: i64,
    pub created_at: i64,
    pub updated_at: i64,
}

/// Which person is meant, or which repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    Id(i64),
    /// Whatever the case; where the name has gone from one to another, the one asked for last.
    Name(String),
}

impl RecordKind {
    pub(super) fn fields(self) -> &'static [Field] {
        match self {
            Self::User => USER,
            Self::Repository => REPOSITORY,
        }
    }

    fn put(self) -> &'static Statement {
        match self {
            Self::User => &field_sql::PUT_USERS,
            Self::Repository => &field_sql::PUT_REPOSITORIES,
        }
    }

    /// Rewrites rows after extraction.
    pub(super) fn reextract(self) -> &'static Statement {
        match self {
            Self::User => &field_sql::REDO_USERS,
            Self::Repository => &field_sql::REDO_REPOSITORIES,
        }
    }

    /// Lists what GitHub said.
    pub(super) fn raw(self) -> &'static Statement {
        match self {
            Self::User => &sql::RAW_USERS,
            Self::Repository => &sql::RAW_REPOSITORIES,
        }
    }

    /// Reads what GitHub says.
    pub(crate) fn read(self, text: &[u8]) -> Result<Record, Malformed> {
        match self {
            Self::User => extract::user(text),
            Self::Repository => extract::repository(text),
        }
    }
}

impl Store {
    pub(crate) async fn known(
        &self,
        record_kind: RecordKind,
        id: i64,
    ) -> Result<Option<Known>, DbError> {
        let statement = match record_kind {
            RecordKind::User => &sql::KNOWN_USER,
            RecordKind::Repository => &sql::KNOWN_REPOSITORY,
        };
        self.db.fetch_optional(statement, &[id.into()]).await
    }

    /// Keeps what was fetched and ends the job: one transaction. With a lease that was lost,
    /// nothing is done.
    pub(crate) async fn save(
        &self,
        queue: &Queue,
        lease: &Lease,
        record_kind: RecordKind,
        record: Record,
        etag: Option<String>,
    ) -> Result<(), DbError> {
        let (queue, lease, now) = (queue.clone(), lease.clone(), self.now_ms());
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    put_in(&mut db, record_kind, &[record], etag, now).await?;
                    finish_in(&mut db, &queue, &lease).await
                })
            })
            .await
    }

    /// Notes that what is kept is still so, and ends the job.
    pub(crate) async fn touch(
        &self,
        queue: &Queue,
        lease: &Lease,
        record_kind: RecordKind,
        id: i64,
    ) -> Result<(), DbError> {
        let statement = match record_kind {
            RecordKind::User => &sql::TOUCH_USER,
            RecordKind::Repository => &sql::TOUCH_REPOSITORY,
        };
        let (queue, lease, now) = (queue.clone(), lease.clone(), self.now_ms());
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    db.execute(statement, &[id.into(), now.into()]).await?;
                    finish_in(&mut db, &queue, &lease).await
                })
            })
            .await
    }

    pub(crate) async fn stored(
        &self,
        record_kind: RecordKind,
        key: &Key,
    ) -> Result<Option<Stored>, DbError> {
        let (statement, value) = match (record_kind, key) {
            (RecordKind::User, Key::Id(id)) => (&sql::USER, (*id).into()),
            (RecordKind::User, Key::Name(name)) => {
                (&sql::USER_BY_LOGIN, name.to_lowercase().into())
            }
            (RecordKind::Repository, Key::Id(id)) => (&sql::REPOSITORY, (*id).into()),
            (RecordKind::Repository, Key::Name(name)) => {
                (&sql::REPOSITORY_BY_NAME, name.to_lowercase().into())
            }
        };
        let row: Option<AnyRow> = self.db.fetch_optional(statement, &[value]).await?;
        Ok(row.map(|row| Stored::of(row, record_kind.fields())))
    }
}

/// Adds or replaces rows.
pub(super) async fn put_in(
    db: &mut Connection<'_>,
    record_kind: RecordKind,
    records: &[Record],
    etag: Option<String>,
    now: i64,
) -> Result<(), DbError> {
    let cells: Vec<_> = records.iter().map(|record| record.cells.clone()).collect();
    let mut columns = field_sql::columns(record_kind.fields(), &cells);
    let raw = records.iter().map(|record| record.raw.clone());
    columns.push(Column::Texts(raw.collect()));
    let unfit = records.iter().map(field_sql::unfit);
    columns.push(Column::MaybeTexts(unfit.collect()));
    let values = [etag.into(), now.into()];
    db.execute_rows(record_kind.put(), &columns, &values)
        .await?;
    Ok(())
}

impl Stored {
    fn of(row: AnyRow, fields: &[Field]) -> Self {
        let mut all = row.0;
        let mut moment = |column| all.remove(column).and_then(|at| at.as_i64()).unwrap_or(0);
        let (fetched_at, created_at, updated_at) = (
            moment("fetched_at"),
            moment("created_at"),
            moment("updated_at"),
        );
        let mut text = |column| match all.remove(column) {
            Some(Json::String(text)) => text,
            _ => String::new(),
        };
        let (raw, unfit) = (text("raw"), text("unfit"));
        let shown = fields.iter().map(|field| {
            let found = all.remove(field.column).unwrap_or_default();
            (field.column.to_owned(), shown(found, field.kind))
        });
        Self {
            fields: shown.collect(),
            raw,
            unfit: unfit
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            fetched_at,
            created_at,
            updated_at,
        }
    }
}

fn shown(found: Json, kind: Kind) -> Json {
    match (kind, found) {
        (Kind::Flag, Json::Number(flag)) => Json::Bool(flag.as_i64() == Some(1)),
        (Kind::Json, Json::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
        (_, found) => found,
    }
}

/// The columns of a row: texts, integers, or nothing.
pub(super) struct AnyRow(pub(super) Map<String, Json>);

/// The same body for both engines.
macro_rules! read {
    ($row:ident) => {{
        let mut all = Map::new();
        for (at, column) in $row.columns().iter().enumerate() {
            // Which of the two it is, only the column's type knows, and the engines say it
            // differently.
            let value = match $row.try_get::<Option<i64>, _>(at) {
                Ok(int) => json!(int),
                Err(Error::ColumnDecode { .. }) => json!($row.try_get::<Option<String>, _>(at)?),
                Err(error) => return Err(error),
            };
            all.insert(column.name().to_owned(), value);
        }
        Ok(Self(all))
    }};
}

impl<'r> FromRow<'r, SqliteRow> for AnyRow {
    fn from_row(row: &'r SqliteRow) -> Result<Self, Error> {
        read!(row)
    }
}

impl<'r> FromRow<'r, PgRow> for AnyRow {
    fn from_row(row: &'r PgRow) -> Result<Self, Error> {
        read!(row)
    }
}
