//! A macro that reads structs from rows of both engines.

use sqlx::error::BoxDynError;

/// Implements [`sqlx::FromRow`] for a struct and the rows of both engines.
///
/// A field is read from the column of its name; from another one if its name follows
/// (`due_ms: "visible_at"`); by conversion from what the column holds (`op: [String]`); or not at all
/// (`state: _`). sqlx's derive would bring both drivers into every build a second time.
#[macro_export]
macro_rules! from_row {
    ($name:ident { $($fields:tt)* }) => {
        $crate::from_row!(@engine $crate::__sqlx::sqlite::SqliteRow, $name { $($fields)* });
        $crate::from_row!(@engine $crate::__sqlx::postgres::PgRow, $name { $($fields)* });
    };
    (@engine $row:ty, $name:ident { $($field:ident $(: $from:tt)?),* $(,)? }) => {
        impl<'r> $crate::__sqlx::FromRow<'r, $row> for $name {
            fn from_row(row: &'r $row) -> Result<Self, $crate::__sqlx::Error> {
                Ok(Self { $($field: $crate::from_row!(@field row $field $($from)?)),* })
            }
        }
    };
    (@field $row:ident $field:ident) => {
        $crate::__sqlx::Row::try_get($row, stringify!($field))?
    };
    (@field $row:ident $field:ident _) => {
        Default::default()
    };
    (@field $row:ident $field:ident [$stored:ty]) => {
        $crate::__converted::<$stored, _>($crate::from_row!(@field $row $field))?
    };
    (@field $row:ident $field:ident $column:literal) => {
        $crate::__sqlx::Row::try_get($row, $column)?
    };
}

/// Converts what a column holds, for [`from_row!`](crate::from_row) alone.
#[doc(hidden)]
pub fn __converted<S, T>(stored: S) -> Result<T, sqlx::Error>
where
    T: TryFrom<S>,
    T::Error: Into<BoxDynError>,
{
    T::try_from(stored).map_err(|error| sqlx::Error::Decode(error.into()))
}
