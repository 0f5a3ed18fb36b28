//! Assertion of a value's shape.

/// Asserts that a value matches a pattern, and prints the value where it does not.
#[macro_export]
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)? $(,)?) => {
        $crate::assert_matches!($value, $pattern $(if $guard)?, "{}", stringify!($value))
    };
    ($value:expr, $pattern:pat $(if $guard:expr)?, $($context:tt)+) => {
        match $value {
            $pattern $(if $guard)? => {}
            ref other => panic!(
                "{}: {other:?} is not {}",
                format_args!($($context)+),
                stringify!($pattern $(if $guard)?),
            ),
        }
    };
}
