//! Statements that follow from the list of fields, built once per process.

use std::{fmt::Write as _, sync::LazyLock};

use grip_db::{Column, Statement};

use crate::{
    extract::{Cell, Record},
    fields::{EVENT, Field, Kind, REPOSITORY, USER},
};

/// Adds or replaces rows. $etag, $now, then the rows.
pub(super) static PUT_USERS: LazyLock<Statement> =
    LazyLock::new(|| put("PUT_USERS", "github_users", USER));
pub(super) static PUT_REPOSITORIES: LazyLock<Statement> =
    LazyLock::new(|| put("PUT_REPOSITORIES", "github_repositories", REPOSITORY));

/// Rewrites the columns of rows that are unchanged since they were read. $now, then the rows.
pub(super) static REDO_USERS: LazyLock<Statement> =
    LazyLock::new(|| reextract("REDO_USERS", "github_users", "bigint", USER, true));
pub(super) static REDO_REPOSITORIES: LazyLock<Statement> = LazyLock::new(|| {
    let table = "github_repositories";
    reextract("REDO_REPOSITORIES", table, "bigint", REPOSITORY, true)
});
pub(super) static REDO_EVENTS: LazyLock<Statement> =
    LazyLock::new(|| reextract("REDO_EVENTS", "push_events", "text", EVENT, false));

/// A column of rows: its name and its type.
type Typed<'a> = (&'a str, &'static str);

fn typed(fields: &[Field]) -> impl Iterator<Item = Typed<'_>> {
    fields.iter().map(|field| {
        let kind = match field.kind {
            Kind::Text | Kind::Json => "text",
            Kind::Id | Kind::MaybeId | Kind::Int | Kind::Flag | Kind::Time => "bigint",
        };
        (field.column, kind)
    })
}

fn put(name: &'static str, table: &str, fields: &[Field]) -> Statement {
    let columns: Vec<_> = typed(fields)
        .chain([("raw", "text"), ("unfit", "text")])
        .collect();
    let more = ["etag", "fetched_at", "created_at", "updated_at"];
    let names: Vec<_> = columns.iter().map(|(name, _)| *name).chain(more).collect();
    let changed = names
        .iter()
        .filter(|name| !matches!(**name, "id" | "created_at"));
    let changed = list(changed.map(|name| format!("\"{name}\" = excluded.\"{name}\"")));
    let names = list(names.iter().map(|name| format!("\"{name}\"")));
    let text = format!(
        "INSERT INTO {table} ({names}) SELECT rows.*, $1, $2, $2, $2 FROM {rows} WHERE TRUE \
         ON CONFLICT (id) DO UPDATE SET {changed}",
        rows = rows(3, &columns),
    );
    Statement::new(name, text.leak())
}

fn reextract(
    name: &'static str,
    table: &str,
    id: &'static str,
    fields: &[Field],
    has_unfit: bool,
) -> Statement {
    let unfit = has_unfit.then_some(("unfit", "text"));
    let changed: Vec<_> = typed(fields)
        .filter(|(name, _)| *name != "id")
        .chain(unfit)
        .collect();
    let mut columns = vec![("id", id), ("seen_at", "bigint")];
    columns.extend(&changed);
    let changed = changed.iter();
    let changed = list(changed.map(|(name, _)| format!("\"{name}\" = rows.\"{name}\"")));
    let text = format!(
        "UPDATE {table} SET {changed}, updated_at = $1 FROM {rows} \
         WHERE {table}.id = rows.id AND {table}.updated_at = rows.seen_at",
        rows = rows(2, &columns),
    );
    Statement::new(name, text.leak())
}

/// The mark for a table of these columns, bound from `first` on.
fn rows(first: usize, columns: &[Typed<'_>]) -> String {
    let columns = columns.iter().map(|(name, kind)| format!("{name} {kind}"));
    format!("{{rows ${first}: {}}}", list(columns))
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
            "text" => Column::MaybeTexts(cells.map(text).collect()),
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
pub(super) fn all() -> [&'static Statement; 5] {
    [
        &PUT_USERS,
        &PUT_REPOSITORIES,
        &REDO_USERS,
        &REDO_REPOSITORIES,
        &REDO_EVENTS,
    ]
}
