//! From GitHub's words to columns. Pure: no clock, no database, no network.
//!
//! Everything here comes from outside. Whatever it is, the answer is columns or a [`Malformed`]
//! that says what is wrong with it; nothing panics, and nothing is as deep or long as it likes.

mod cell;
mod event;
mod record;

pub use self::{
    cell::Cell,
    event::{Actor, Event, Push, TagEvent, delivery, event},
    record::{Record, repository, unmapped, user},
};

/// Longest event or record: as long as a webhook may be.
pub const MAX_BYTES: usize = 25 << 20;

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

/// Reads a JSON object of bounded length and depth.
fn object(text: &[u8]) -> Result<serde_json::Value, Malformed> {
    if text.len() > MAX_BYTES {
        let bytes = text.len();
        return Err(Malformed::TooBig { bytes });
    }
    let value: serde_json::Value = serde_json::from_slice(text)?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Malformed::NotAnObject)
    }
}

/// The text as it was, which is UTF-8 once it was read as JSON.
fn raw(text: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(text.trim_ascii());
    text.map(str::to_owned).map_err(|_| Malformed::NotUtf8)
}

#[cfg(test)]
mod tests;
