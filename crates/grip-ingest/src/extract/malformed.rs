//! Reasons why an event or a record cannot be read.

use super::MAX_BYTES;

/// Why something cannot be taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    #[error("it is longer than {MAX_BYTES} bytes: {bytes}")]
    TooBig { bytes: usize },
    #[error("it is not UTF-8")]
    NotUtf8,
    #[error("it is no JSON that can be read: {0}")]
    NotJson(String),
    #[error("it is no JSON object")]
    NotAnObject,
    #[error("it has no {what}")]
    Missing { what: &'static str },
    #[error("{what} should be {expected}")]
    Unfit {
        what: &'static str,
        expected: &'static str,
    },
    #[error("{what} is longer than {most} bytes")]
    TooLong { what: &'static str, most: usize },
}

impl From<serde_json::Error> for Malformed {
    fn from(error: serde_json::Error) -> Self {
        // It may quote what came: one line of bounded length.
        let line = error.to_string();
        let shown = line.chars().filter(|c| !c.is_control());
        Self::NotJson(shown.take(200).collect())
    }
}
