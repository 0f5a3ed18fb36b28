//! SQL text, written once for both engines.

use std::{fmt::Write as _, sync::OnceLock};

use crate::Engine;

/// One SQL statement under a name.
///
/// Placeholders are `$1`, `$2`, …, which both engines understand. Two marks stand for what they
/// write differently:
///
/// - `{in $2}`: whether the value before it is in the list bound to `$2`.
/// - `{rows $2: id bigint, name text}`: a table `rows` of the [`Column`](crate::Column)s bound
///   last, from `$2` on. One column alone may be bound as a list anywhere. An `ON CONFLICT`
///   after it needs a `WHERE` in between.
#[derive(Debug)]
pub struct Statement {
    pub name: &'static str,
    sqlite: Text,
    postgres: Text,
}

#[derive(Debug)]
struct Text {
    written: &'static str,
    expanded: OnceLock<&'static str>,
}

impl Statement {
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Self::per_engine(name, text, text)
    }

    /// For the few that the engines have to be told in different words.
    pub const fn per_engine(
        name: &'static str,
        sqlite: &'static str,
        postgres: &'static str,
    ) -> Self {
        Self {
            name,
            sqlite: Text::new(sqlite),
            postgres: Text::new(postgres),
        }
    }

    /// The text as the engine reads it; made once for each statement.
    pub fn text(&self, engine: Engine) -> &'static str {
        let text = match engine {
            Engine::Sqlite => &self.sqlite,
            Engine::Postgres => &self.postgres,
        };
        let expanded = || expand(text.written, engine);
        text.expanded.get_or_init(expanded)
    }
}

impl Text {
    const fn new(written: &'static str) -> Self {
        Self {
            written,
            expanded: OnceLock::new(),
        }
    }
}

fn expand(written: &'static str, engine: Engine) -> &'static str {
    if !written.contains('{') {
        return written;
    }
    let mut text = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let mark = after.split_once('}');
        let expanded = mark.and_then(|(mark, _)| {
            let list = mark.strip_prefix("in ").map(|list| is_in(list, engine));
            list.or_else(|| Some(rows_from(mark.strip_prefix("rows $")?, engine)))
        });
        rest = match (expanded, mark) {
            (Some(expanded), Some((_, after))) => {
                text.push_str(&expanded);
                after
            }
            // A brace of the text itself, such as JSON's.
            _ => {
                text.push('{');
                after
            }
        };
    }
    text.push_str(rest);
    text.leak()
}

fn is_in(list: &str, engine: Engine) -> String {
    match engine {
        Engine::Sqlite => format!("IN (SELECT value FROM json_each({list}))"),
        Engine::Postgres => format!("= ANY({list})"),
    }
}

/// SQLite gets one JSON array, of rows or of the values of a single column; Postgres an array per
/// column.
fn rows_from(rows: &str, engine: Engine) -> String {
    let (first, columns) = rows.split_once(": ").expect("columns follow a colon");
    let first: usize = first.parse().expect("a placeholder is a number");
    let (mut values, mut names) = (String::new(), String::new());
    let is_list = !columns.contains(',');
    for (at, column) in columns.split(", ").enumerate() {
        let (name, kind) = column.split_once(' ').expect("a column has a type");
        let comma = if at == 0 { "" } else { ", " };
        let _ = match engine {
            Engine::Sqlite if is_list => write!(values, "e.value AS \"{name}\""),
            Engine::Sqlite => write!(values, "{comma}e.value ->> {at} AS \"{name}\""),
            Engine::Postgres => write!(values, "{comma}${}::{kind}[]", first + at),
        };
        let _ = write!(names, "{comma}\"{name}\"");
    }
    match engine {
        Engine::Sqlite => format!("(SELECT {values} FROM json_each(${first}) AS e) AS rows"),
        Engine::Postgres => format!("UNNEST({values}) AS rows ({names})"),
    }
}

/// Names the statements of a module, and lists them all in `ALL` for the test that prepares each
/// of them on both engines.
///
/// ```
/// use grip_db::Engine;
///
/// grip_db::statements! {
///     mod sql {
///         AMONG = "SELECT key FROM purgatory WHERE key {in $1}";
///         SIZE = {
///             sqlite: "SELECT 0",
///             postgres: "SELECT pg_relation_size('queue')",
///         };
///     }
/// }
/// let text = sql::AMONG.text(Engine::Postgres);
/// assert_eq!(text, "SELECT key FROM purgatory WHERE key = ANY($1)");
/// assert_eq!(sql::ALL.len(), 2);
/// ```
#[macro_export]
macro_rules! statements {
    ($(#[$meta:meta])* $vis:vis mod $module:ident { $($name:ident = $text:tt;)+ }) => {
        $(#[$meta])*
        $vis mod $module {
            $(pub static $name: $crate::Statement = $crate::statements!(@one $name $text);)+
            /// Every statement of this module.
            #[allow(dead_code, reason = "read by the test that prepares them all")]
            pub static ALL: &[&$crate::Statement] = &[$(&$name),+];
        }
    };
    (@one $name:ident { sqlite: $sqlite:expr, postgres: $postgres:expr $(,)? }) => {
        $crate::Statement::per_engine(stringify!($name), $sqlite, $postgres)
    };
    (@one $name:ident $text:expr) => {
        $crate::Statement::new(stringify!($name), $text)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_what_each_engine_reads() {
        let text = "UPDATE t SET n = $1 FROM {rows $2: id bigint, name text} \
                    WHERE t.id = rows.id AND t.name {in $4} AND t.raw <> '{}'";
        let statement = Statement::new("MARKED", text);
        assert_eq!(
            statement.text(Engine::Sqlite),
            "UPDATE t SET n = $1 FROM (SELECT e.value ->> 0 AS \"id\", e.value ->> 1 AS \"name\" \
             FROM json_each($2) AS e) AS rows \
             WHERE t.id = rows.id AND t.name IN (SELECT value FROM json_each($4)) \
             AND t.raw <> '{}'"
        );
        assert_eq!(
            statement.text(Engine::Postgres),
            "UPDATE t SET n = $1 FROM UNNEST($2::bigint[], $3::text[]) AS rows (\"id\", \"name\") \
             WHERE t.id = rows.id AND t.name = ANY($4) AND t.raw <> '{}'"
        );
    }
}
