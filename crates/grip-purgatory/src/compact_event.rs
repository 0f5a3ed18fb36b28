//! Events in the form in which they wait: many at once, and seldom read.

use std::{cmp::Reverse, fmt, sync::Arc};

use grip_nostr::{Event, EventId, Kind, PublicKey, Timestamp, expiration};
use nostr::prelude::{Signature, Tag};

use crate::Millis;

const ID: usize = 0;
const AUTHOR: usize = ID + 32;
const SIGNATURE: usize = AUTHOR + 32;
const CREATED_AT: usize = SIGNATURE + 64;
const KIND: usize = CREATED_AT + 8;
/// Whether the event has an end of its own: most have none, and need not be unpacked to know.
const HAS_END: usize = KIND + 2;
const REST: usize = HAS_END + 1;

/// A signed event in one allocation, less than half of what it takes as a value. Cheap to clone,
/// so that it can be taken out of a lock and unpacked outside.
///
/// Behind the fixed fields come the content and the tags, each text with its length before it;
/// hex digits, which object ids and keys consist of, are kept as the bytes they stand for.
#[derive(Clone, PartialEq, Eq)]
pub struct CompactEvent {
    bytes: Arc<[u8]>,
}

impl CompactEvent {
    pub fn new(event: &Event) -> Self {
        let mut bytes = Vec::with_capacity(REST + event.content.len() + 128);
        bytes.extend_from_slice(event.id.as_bytes());
        bytes.extend_from_slice(event.pubkey.as_bytes());
        bytes.extend_from_slice(event.sig.as_bytes());
        bytes.extend_from_slice(&event.created_at.as_secs().to_le_bytes());
        bytes.extend_from_slice(&event.kind.as_u16().to_le_bytes());
        bytes.push(u8::from(expiration(event).is_some()));
        put_text(&mut bytes, &event.content);
        put_len(&mut bytes, event.tags.len());
        for tag in event.tags.iter() {
            put_len(&mut bytes, tag.len());
            for value in tag.as_slice() {
                put_text(&mut bytes, value);
            }
        }
        Self {
            bytes: bytes.into(),
        }
    }

    /// The event as a value.
    pub fn unpack(&self) -> Event {
        let mut rest = Reader(&self.bytes[REST..]);
        let content = rest.text();
        let tags: Vec<Tag> = (0..rest.len())
            .map(|_| {
                let values: Vec<String> = (0..rest.len()).map(|_| rest.text()).collect();
                Tag::parse(values).expect("no tag of an event is empty")
            })
            .collect();
        let signature = Signature::from_byte_array(self.array(SIGNATURE));
        Event::new(
            self.id(),
            self.author(),
            self.created_at(),
            self.kind(),
            tags,
            content,
            signature,
        )
    }

    pub fn id(&self) -> EventId {
        EventId::from_byte_array(self.array(ID))
    }

    pub fn author(&self) -> PublicKey {
        PublicKey::from_byte_array(self.array(AUTHOR))
    }

    pub fn created_at(&self) -> Timestamp {
        Timestamp::from_secs(u64::from_le_bytes(self.array(CREATED_AT)))
    }

    pub fn kind(&self) -> Kind {
        Kind::from(u16::from_le_bytes(self.array(KIND)))
    }

    /// When the event itself ends (NIP-40).
    pub(crate) fn ends_at(&self) -> Option<Millis> {
        let has_end = self.bytes[HAS_END] != 0;
        let end = has_end.then(|| expiration(&self.unpack()))??;
        Some(Millis::from(end))
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// As [`grip_nostr::supersedes`].
    pub(crate) fn supersedes(&self, other: &Self) -> bool {
        let rank = |event: &Self| (event.created_at(), Reverse(event.id()));
        rank(self) > rank(other)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = &self.bytes[at..at + N];
        bytes.try_into().expect("the fixed fields are there")
    }
}

impl fmt::Debug for CompactEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompactEvent").field(&self.unpack()).finish()
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn put_len(bytes: &mut Vec<u8>, mut len: usize) {
    while len >= 0x80 {
        bytes.push((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    bytes.push(len as u8);
}

/// The lowest bit of the length says whether the text is hex.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let text = text.as_bytes();
    let is_hex = text.len() >= 16 && text.len().is_multiple_of(2) && text.iter().all(is_digit);
    if !is_hex {
        put_len(bytes, text.len() << 1);
        bytes.extend_from_slice(text);
        return;
    }
    put_len(bytes, text.len() | 1);
    let start = bytes.len();
    bytes.resize(start + text.len() / 2, 0);
    faster_hex::hex_decode(text, &mut bytes[start..]).expect("all of it are hex digits");
}

fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn len(&mut self) -> usize {
        let (mut len, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.0.split_first().expect("a length was written");
            self.0 = rest;
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return len;
            }
        }
    }

    fn text(&mut self) -> String {
        let len = self.len();
        let (text, rest) = self.0.split_at(len >> 1);
        self.0 = rest;
        if len & 1 == 1 {
            return faster_hex::hex_string(text);
        }
        let text = std::str::from_utf8(text);
        text.expect("a text was written").to_owned()
    }
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{EventBuilder, FinalizeEvent, Keys};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn an_event_is_the_same_when_unpacked(
            kind in any::<u16>(),
            created_at in any::<u32>(),
            content in "\\PC{0,300}",
            tags in proptest::collection::vec(
                proptest::collection::vec("\\PC{0,150}|[0-9a-f]{10,80}", 1..5),
                0..150,
            ),
        ) {
            let event = EventBuilder::new(Kind::from(kind), content)
                .tags(tags.into_iter().map(|tag| Tag::parse(tag).unwrap()))
                .custom_created_at(Timestamp::from_secs(created_at.into()))
                .finalize(&Keys::generate())
                .unwrap();
            let packed = CompactEvent::new(&event);
            prop_assert_eq!(packed.kind(), event.kind);
            prop_assert_eq!(packed.author(), event.pubkey);
            let unpacked = packed.unpack();
            prop_assert!(unpacked.verify().is_ok());
            prop_assert_eq!(unpacked, event);
        }
    }
}
