//! Events for unit tests.

use grip_nostr::Event;
use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Kind, Tag, Timestamp};

/// An event of a new key.
pub(crate) fn event(kind: u16, content: &str, tags: &[[&str; 2]]) -> Event {
    event_at(kind, content, tags, Timestamp::now().as_secs())
}

/// The same, signed at a time.
pub(crate) fn event_at(kind: u16, content: &str, tags: &[[&str; 2]], at: u64) -> Event {
    let tags = tags.iter().map(|tag| Tag::parse(*tag).unwrap());
    EventBuilder::new(Kind::from(kind), content)
        .tags(tags)
        .custom_created_at(Timestamp::from(at))
        .finalize(&Keys::generate())
        .unwrap()
}
