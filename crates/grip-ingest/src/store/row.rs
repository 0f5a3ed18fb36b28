//! A row as it is, whatever its columns.

use serde_json::{Map, Value, json};
use sqlx::{Column as _, Error, FromRow, Row as _, postgres::PgRow, sqlite::SqliteRow};

/// The columns of a row: texts, integers, or nothing.
pub(super) struct AnyRow(pub(super) Map<String, Value>);

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
