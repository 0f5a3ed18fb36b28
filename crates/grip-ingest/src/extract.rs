//! From GitHub's words to columns. Pure: no clock, no database, no network.
//!
//! Everything here comes from outside. Whatever it is, the answer is columns or a [`Malformed`]
//! that says what is wrong with it; nothing panics, and nothing is as deep or long as it likes.

mod actor;
mod cell;
mod event;
mod malformed;
mod record;

pub use self::{
    actor::Actor,
    cell::Cell,
    event::{Event, Push, delivery, event},
    malformed::Malformed,
    record::{Record, repository, unmapped, user},
};

/// Longest event or record: as long as a webhook may be.
pub const MAX_BYTES: usize = 25 << 20;

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
