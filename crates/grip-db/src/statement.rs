//! SQL text, one for both engines where their dialects agree.

/// One SQL statement under a name, in the dialects of both engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    pub name: &'static str,
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// Names the statements of a module, and lists them all in `ALL` for the test that prepares each
/// of them on both engines. Placeholders are `$1`, `$2`, …, which both understand.
///
/// ```
/// grip_db::statements! {
///     mod sql {
///         COUNT = "SELECT count(*) FROM purgatory";
///         AMONG = {
///             sqlite: "SELECT key FROM purgatory WHERE key IN (SELECT value FROM json_each($1))",
///             postgres: "SELECT key FROM purgatory WHERE key = ANY($1)",
///         };
///     }
/// }
/// assert_eq!(sql::COUNT.sqlite, sql::COUNT.postgres);
/// assert_eq!(sql::ALL.len(), 2);
/// ```
#[macro_export]
macro_rules! statements {
    ($(#[$meta:meta])* $vis:vis mod $module:ident { $($name:ident = $text:tt;)+ }) => {
        $(#[$meta])*
        $vis mod $module {
            $(pub const $name: $crate::Statement = $crate::statements!(@one $name $text);)+
            /// Every statement of this module.
            #[allow(dead_code, reason = "read by the test that prepares them all")]
            pub const ALL: &[$crate::Statement] = &[$($name),+];
        }
    };
    (@one $name:ident { sqlite: $sqlite:expr, postgres: $postgres:expr $(,)? }) => {
        $crate::Statement { name: stringify!($name), sqlite: $sqlite, postgres: $postgres }
    };
    (@one $name:ident $text:expr) => {
        $crate::Statement { name: stringify!($name), sqlite: $text, postgres: $text }
    };
}
