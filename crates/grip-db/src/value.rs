//! Values and columns that are bound to the placeholders of a statement.

use serde_json::{Value as Json, json};
use sqlx::{Arguments as _, error::BoxDynError, postgres::PgArguments, sqlite::SqliteArguments};

/// The value of one placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Int(i64),
    MaybeInt(Option<i64>),
    Text(String),
    MaybeText(Option<String>),
    Bytes(Vec<u8>),
    /// A list, for `{in $1}`: an array on Postgres, JSON on SQLite.
    Ints(Vec<i64>),
    /// A list, as with [`Value::Ints`].
    Texts(Vec<String>),
}

/// One column of many rows that one statement takes, for `{rows $1: …}`: an array on Postgres;
/// SQLite gets all columns as one JSON array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    Ints(Vec<i64>),
    MaybeInts(Vec<Option<i64>>),
    Texts(Vec<String>),
    MaybeTexts(Vec<Option<String>>),
}

macro_rules! values_from {
    ($($kind:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$kind> for Value {
            fn from(value: $kind) -> Self {
                Self::$variant(value.into())
            }
        }
    )+};
}

values_from! {
    i64 => Int,
    Option<i64> => MaybeInt,
    &str => Text,
    &String => Text,
    String => Text,
    Option<String> => MaybeText,
    Vec<u8> => Bytes,
    Vec<i64> => Ints,
    Vec<String> => Texts,
}

impl Column {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Ints(values) => values.len(),
            Self::MaybeInts(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::MaybeTexts(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn json(&self, row: usize) -> Json {
        match self {
            Self::Ints(values) => json!(values[row]),
            Self::MaybeInts(values) => json!(values[row]),
            Self::Texts(values) => json!(values[row]),
            Self::MaybeTexts(values) => json!(values[row]),
        }
    }
}

pub(crate) fn for_sqlite(
    columns: &[Column],
    values: &[Value],
) -> Result<SqliteArguments, BoxDynError> {
    let mut arguments = SqliteArguments::default();
    for value in values {
        match value {
            Value::Int(value) => arguments.add(*value)?,
            Value::MaybeInt(value) => arguments.add(*value)?,
            Value::Text(value) => arguments.add(value.clone())?,
            Value::MaybeText(value) => arguments.add(value.clone())?,
            Value::Bytes(value) => arguments.add(value.clone())?,
            Value::Ints(values) => arguments.add(json!(values).to_string())?,
            Value::Texts(values) => arguments.add(json!(values).to_string())?,
        }
    }
    if let Some(first) = columns.first() {
        let row = |row| match columns {
            [column] => column.json(row),
            columns => Json::from_iter(columns.iter().map(|column| column.json(row))),
        };
        let rows = Json::from_iter((0..first.len()).map(row));
        arguments.add(rows.to_string())?;
    }
    Ok(arguments)
}

pub(crate) fn for_postgres(
    columns: &[Column],
    values: &[Value],
) -> Result<PgArguments, BoxDynError> {
    let mut arguments = PgArguments::default();
    for value in values {
        match value {
            Value::Int(value) => arguments.add(*value)?,
            Value::MaybeInt(value) => arguments.add(*value)?,
            Value::Text(value) => arguments.add(value)?,
            Value::MaybeText(value) => arguments.add(value)?,
            Value::Bytes(value) => arguments.add(value)?,
            Value::Ints(values) => arguments.add(values)?,
            Value::Texts(values) => arguments.add(values)?,
        }
    }
    for column in columns {
        match column {
            Column::Ints(values) => arguments.add(values)?,
            Column::MaybeInts(values) => arguments.add(values)?,
            Column::Texts(values) => arguments.add(values)?,
            Column::MaybeTexts(values) => arguments.add(values)?,
        }
    }
    Ok(arguments)
}
