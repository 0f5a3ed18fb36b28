//! Entry points for fuzz targets: the parsers that read what strangers send.

use grip_nostr::{Event, Timestamp};

use crate::{Limits, event::Checked, message};

/// Checks an EVENT message; the event if it is taken.
pub fn check_event(text: &[u8]) -> Option<Event> {
    match crate::event::check(text, &Limits::default(), Timestamp::now()) {
        Checked::Event(event) => Some(event),
        Checked::Refused { .. } | Checked::Unreadable(_) => None,
    }
}

/// Parses a message of any type; says whether it is understood.
pub fn parse_message(text: &[u8]) -> bool {
    let _ = message::label(text);
    message::parse(text, &Limits::default()).is_ok()
}
