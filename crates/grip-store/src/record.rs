//! A stored event: a binary head, then the JSON as clients receive it.
//!
//! ```text
//! position 40 | author 32 | kind 2 | expiration 8 | digest of d 16 | tag count 4 | tag keys 17 each | JSON
//! ```

use grip_nostr::{address_of, expiration};
use nostr::prelude::Event;

use crate::{
    StoreError,
    keys::{self, Digest16, Entry, POSITION_LEN, Position, Serial, TAG_KEY_LEN, TagKey},
};

const AUTHOR: usize = POSITION_LEN;
const KIND: usize = AUTHOR + 32;
const EXPIRATION: usize = KIND + 2;
const D: usize = EXPIRATION + 8;
const TAG_COUNT: usize = D + 16;
const TAGS: usize = TAG_COUNT + 4;

/// Stands for "does not expire".
const NEVER: u64 = u64::MAX;

/// What the head of a record says, taken from an event about to be stored.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) position: Position,
    pub(crate) author: [u8; 32],
    pub(crate) kind: u16,
    pub(crate) expiration: Option<u64>,
    /// Zeros for an event without address.
    pub(crate) d: Digest16,
    pub(crate) tags: Vec<TagKey>,
}

impl Head {
    pub(crate) fn of(event: &Event) -> Self {
        Self {
            position: keys::position(event.created_at.as_secs(), event.id.as_bytes()),
            author: event.pubkey.to_bytes(),
            kind: event.kind.as_u16(),
            expiration: expiration(event)
                .map(|at| at.as_secs())
                .filter(|at| *at != NEVER),
            d: address_of(event).map_or([0; 16], |address| keys::digest(&address.d)),
            tags: keys::tag_keys(event),
        }
    }

    pub(crate) fn id(&self) -> &[u8; 32] {
        keys::id_of(&self.position)
    }

    pub(crate) fn entry(&self, serial: Serial) -> Entry {
        Entry {
            serial,
            kind: self.kind,
            expiration: self.expiration,
        }
    }

    /// Replaces the content of `buffer` with the record of `event`.
    pub(crate) fn encode(&self, event: &Event, buffer: &mut Vec<u8>) -> Result<(), StoreError> {
        let tag_count = u32::try_from(self.tags.len()).expect("an event has fewer than 2^32 tags");
        buffer.clear();
        buffer.extend_from_slice(&self.position);
        buffer.extend_from_slice(&self.author);
        buffer.extend_from_slice(&self.kind.to_be_bytes());
        buffer.extend_from_slice(&self.expiration.unwrap_or(NEVER).to_be_bytes());
        buffer.extend_from_slice(&self.d);
        buffer.extend_from_slice(&tag_count.to_be_bytes());
        buffer.extend_from_slice(self.tags.as_flattened());
        serde_json::to_writer(buffer, event).map_err(StoreError::Encode)
    }
}

/// A record as it lies in the map.
#[derive(Clone, Copy)]
pub(crate) struct Record<'t> {
    head: &'t [u8; TAGS],
    tags: &'t [TagKey],
    json: &'t [u8],
}

impl<'t> Record<'t> {
    pub(crate) fn decode(bytes: &'t [u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Corrupt("an event record is cut short");
        let (head, rest) = bytes.split_first_chunk::<TAGS>().ok_or_else(damaged)?;
        let count = u32::from_be_bytes(part(head, TAG_COUNT));
        let count = usize::try_from(count).map_err(|_| damaged())?;
        let length = count.checked_mul(TAG_KEY_LEN).ok_or_else(damaged)?;
        let (tags, json) = rest.split_at_checked(length).ok_or_else(damaged)?;
        let (tags, _) = tags.as_chunks();
        Ok(Self { head, tags, json })
    }

    pub(crate) fn position(&self) -> &'t Position {
        self.head
            .first_chunk()
            .expect("the head starts with the position")
    }

    pub(crate) fn id(&self) -> &'t [u8; 32] {
        keys::id_of(self.position())
    }

    pub(crate) fn created_at(&self) -> u64 {
        keys::created_at_of(self.position())
    }

    pub(crate) fn author(&self) -> [u8; 32] {
        part(self.head, AUTHOR)
    }

    pub(crate) fn kind(&self) -> u16 {
        u16::from_be_bytes(part(self.head, KIND))
    }

    pub(crate) fn expiration(&self) -> Option<u64> {
        Some(u64::from_be_bytes(part(self.head, EXPIRATION))).filter(|at| *at != NEVER)
    }

    /// Sorted.
    pub(crate) fn tags(&self) -> &'t [TagKey] {
        self.tags
    }

    pub(crate) fn json(&self) -> &'t [u8] {
        self.json
    }

    /// Copies the head out of the map, which a write may change under it.
    pub(crate) fn to_head(self) -> Head {
        Head {
            position: *self.position(),
            author: self.author(),
            kind: self.kind(),
            expiration: self.expiration(),
            d: part(self.head, D),
            tags: self.tags.to_vec(),
        }
    }
}

fn part<const N: usize>(head: &[u8; TAGS], at: usize) -> [u8; N] {
    head[at..at + N]
        .try_into()
        .expect("every field lies inside the head")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn damaged_bytes_are_refused_or_read_but_never_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..400),
            tags in 0..20_u8,
        ) {
            if let Some(count) = bytes.get_mut(TAG_COUNT..TAGS) {
                count.copy_from_slice(&[0, 0, 0, tags]);
            }
            let _ = Entry::decode(&bytes);
            if let Ok(record) = Record::decode(&bytes) {
                let read = record.to_head();
                prop_assert_eq!(read.tags.len(), usize::from(tags));
                prop_assert_eq!(TAGS + read.tags.len() * TAG_KEY_LEN + record.json().len(), bytes.len());
            }
        }
    }
}
