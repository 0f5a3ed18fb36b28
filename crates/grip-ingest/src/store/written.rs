//! The statements that follow from the list of fields, written once per process.

use std::{fmt::Write as _, sync::LazyLock};

use grip_db::{Column, Statement};

use crate::{
    extract::{Cell, Record},
    fields::{EVENT, Field, Kind, REPOSITORY, USER},
};

/// Adds or replaces rows. After the columns of the rows: $etag, $now.
pub(super) static PUT_USERS: LazyLock<Statement> =
    LazyLock::new(|| put("PUT_USERS", "github_users", USER));
pub(super) static PUT_REPOSITORIES: LazyLock<Statement> =
    LazyLock::new(|| put("PUT_REPOSITORIES", "github_repositories", REPOSITORY));

/// Writes the columns of rows anew that are still as they were read. After the columns: $now.
pub(super) static REDO_USERS: LazyLock<Statement> =
    LazyLock::new(|| redo("REDO_USERS", "github_users", "BIGINT", USER, true));
pub(super) static REDO_REPOSITORIES: LazyLock<Statement> = LazyLock::new(|| {
    let table = "github_repositories";
    redo("REDO_REPOSITORIES", table, "BIGINT", REPOSITORY, true)
});
pub(super) static REDO_EVENTS: LazyLock<Statement> =
    LazyLock::new(|| redo("REDO_EVENTS", "push_events", "TEXT", EVENT, false));

/// A column of rows: its name and its type.
type Typed<'a> = (&'a str, &'static str);

fn typed(fields: &[Field]) -> impl Iterator<Item = Typed<'_>> {
    fields.iter().map(|field| {
        let kind = match field.kind {
            Kind::Text | Kind::Json => "TEXT",
            Kind::Id | Kind::MaybeId | Kind::Int | Kind::Flag | Kind::Time => "BIGINT",
        };
        (field.column, kind)
    })
}

fn put(name: &'static str, table: &str, fields: &[Field]) -> Statement {
    let columns: Vec<_> = typed(fields)
        .chain([("raw", "TEXT"), ("unfit", "TEXT")])
        .collect();
    let more = ["etag", "fetched_at", "created_at", "updated_at"];
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).chain(more).collect();
    let changed = names
        .iter()
        .filter(|name| !matches!(**name, "id" | "created_at"));
    let changed = list(changed.map(|name| format!("\"{name}\" = excluded.\"{name}\"")));
    // The condition tells the conflict clause from a join.
    let text = |rows: &str, first: usize| {
        let names = list(names.iter().map(|name| format!("\"{name}\"")));
        let now = first + 1;
        format!(
            "INSERT INTO {table} ({names}) SELECT {rows_columns}, ${first}, ${now}, ${now}, ${now} \
             FROM {rows} WHERE TRUE ON CONFLICT (id) DO UPDATE SET {changed}",
            rows_columns = list(columns.iter().map(|(name, _)| format!("r.\"{name}\""))),
        )
    };
    Statement {
        name,
        sqlite: text(&sqlite_rows(&columns), 2).leak(),
        postgres: text(&postgres_rows(&columns), columns.len() + 1).leak(),
    }
}

fn redo(
    name: &'static str,
    table: &str,
    id: &'static str,
    fields: &[Field],
    has_unfit: bool,
) -> Statement {
    let unfit = has_unfit.then_some(("unfit", "TEXT"));
    let changed: Vec<_> = typed(fields)
        .filter(|(name, _)| *name != "id")
        .chain(unfit)
        .collect();
    let mut columns = vec![("id", id), ("seen_at", "BIGINT")];
    columns.extend(&changed);
    let text = |rows: &str, now: usize| {
        format!(
            "UPDATE {table} SET {changed}, updated_at = ${now} FROM {rows} \
             WHERE {table}.id = r.id AND {table}.updated_at = r.seen_at",
            changed = list(
                changed
                    .iter()
                    .map(|(name, _)| format!("\"{name}\" = r.\"{name}\""))
            ),
        )
    };
    Statement {
        name,
        sqlite: text(&sqlite_rows(&columns), 2).leak(),
        postgres: text(&postgres_rows(&columns), columns.len() + 1).leak(),
    }
}

/// Rows named `r`, from one JSON array.
fn sqlite_rows(columns: &[Typed<'_>]) -> String {
    let mut parts = Vec::new();
    for (at, (name, _)) in columns.iter().enumerate() {
        parts.push(format!("e.value ->> {at} AS \"{name}\""));
    }
    let parts = list(parts.into_iter());
    format!("(SELECT {parts} FROM json_each($1) AS e) AS r")
}

/// Rows named `r`, from one array per column.
fn postgres_rows(columns: &[Typed<'_>]) -> String {
    let arrays = columns.iter().enumerate();
    let arrays = list(arrays.map(|(at, (_, kind))| format!("${}::{kind}[]", at + 1)));
    let names = list(columns.iter().map(|(name, _)| format!("\"{name}\"")));
    format!("UNNEST({arrays}) AS r ({names})")
}

fn list(parts: impl Iterator<Item = String>) -> String {
    let mut all = String::new();
    for part in parts {
        let comma = if all.is_empty() { "" } else { ", " };
        let _ = write!(all, "{comma}{part}");
    }
    all
}

/// The cells of many rows, turned into columns.
pub(super) fn columns(fields: &[Field], rows: &[Vec<Cell>]) -> Vec<Column> {
    let mut columns = Vec::with_capacity(fields.len());
    for (at, (_, kind)) in typed(fields).enumerate() {
        let cells = rows.iter().map(|row| &row[at]);
        columns.push(match kind {
            "TEXT" => Column::MaybeTexts(cells.map(text).collect()),
            _ => Column::MaybeInts(cells.map(int).collect()),
        });
    }
    columns
}

fn text(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Int(_) => None,
    }
}

fn int(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Int(int) => *int,
        Cell::Text(_) => None,
    }
}

/// The columns that did not fit, as they are kept.
pub(super) fn unfit(record: &Record) -> Option<String> {
    (!record.unfit.is_empty()).then(|| record.unfit.join(","))
}

/// All of them, for the test that has both engines read each.
#[cfg(test)]
pub(super) fn all() -> Vec<Statement> {
    let all = [
        &PUT_USERS,
        &PUT_REPOSITORIES,
        &REDO_USERS,
        &REDO_REPOSITORIES,
        &REDO_EVENTS,
    ];
    all.into_iter().map(|statement| **statement).collect()
}
