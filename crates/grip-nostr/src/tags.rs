//! Lenient tag reading.

use nostr::prelude::{Event, Timestamp};

/// The first value of the first tag called `name`.
pub fn first_value<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    event
        .tags
        .iter()
        .find(|tag| tag.kind() == name)
        .and_then(|tag| tag.content())
}

/// All values of all tags called `name`: NIP-34 lists are one tag with many values, and writers
/// that repeat the tag are understood too.
pub fn values<'a>(event: &'a Event, name: &'a str) -> impl Iterator<Item = &'a str> {
    event
        .tags
        .iter()
        .filter(move |tag| tag.kind() == name)
        .flat_map(|tag| tag.as_slice().iter().skip(1))
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

/// When the event expires (NIP-40); a value that is no number is as good as absent.
pub fn expiration(event: &Event) -> Option<Timestamp> {
    first_value(event, "expiration")?
        .parse::<u64>()
        .ok()
        .map(Timestamp::from_secs)
}

/// Reads 64 lower-case hex digits.
pub(crate) fn hex32(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || text.bytes().any(|b| b.is_ascii_uppercase()) {
        return None;
    }
    let mut out = [0; 32];
    faster_hex::hex_decode(text.as_bytes(), &mut out).ok()?;
    Some(out)
}
