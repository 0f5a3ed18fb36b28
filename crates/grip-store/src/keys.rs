//! The bytes of keys and index entries.
//!
//! Integers are big-endian, so that LMDB's byte order is their order.

use grip_nostr::Address;
use nostr::prelude::Event;
use sha2::{Digest, Sha256};

use crate::StoreError;

pub(crate) const POSITION_LEN: usize = 40;

/// Where an event stands among all events: inverted `created_at`, then id.
///
/// The lower position is the newer event, and of two made in one second the one with the lower id,
/// which is both the order of answers and NIP-01's rule for which version of an address wins.
pub(crate) type Position = [u8; POSITION_LEN];

pub(crate) fn position(created_at: u64, id: &[u8; 32]) -> Position {
    let mut position = [0; POSITION_LEN];
    position[..8].copy_from_slice(&(!created_at).to_be_bytes());
    position[8..].copy_from_slice(id);
    position
}

pub(crate) fn created_at_of(position: &Position) -> u64 {
    let (time, _) = position
        .split_first_chunk()
        .expect("a position starts with 8 bytes of time");
    !u64::from_be_bytes(*time)
}

pub(crate) fn id_of(position: &Position) -> &[u8; 32] {
    position
        .last_chunk()
        .expect("a position ends with 32 bytes of id")
}

/// The digest that stands for a text of any length in a key.
///
/// LMDB keys end at 511 bytes, tag values do not. Half of SHA-256 leaves nobody a way to make two
/// values share a digest.
pub(crate) type Digest16 = [u8; 16];

pub(crate) fn digest(text: &str) -> Digest16 {
    let full = Sha256::digest(text.as_bytes());
    *full.first_chunk().expect("SHA-256 has 32 bytes")
}

pub(crate) const TAG_KEY_LEN: usize = 17;

/// The digest of a tag's first value, then the tag's letter.
///
/// The letter comes last because events name one value by several tags (`e` and `E`, `p` and `P`):
/// so their entries share a page, and fewer pages are written.
pub(crate) type TagKey = [u8; TAG_KEY_LEN];

pub(crate) fn tag_key(letter: u8, value: &Digest16) -> TagKey {
    let mut key = [letter; TAG_KEY_LEN];
    key[..16].copy_from_slice(value);
    key
}

/// The indexable tags of an event, sorted, each once.
pub(crate) fn tag_keys(event: &Event) -> Vec<TagKey> {
    let mut keys: Vec<TagKey> = event
        .tags
        .iter()
        .filter_map(|tag| match tag.kind().as_bytes() {
            [letter] if letter.is_ascii_alphabetic() => {
                Some(tag_key(*letter, &digest(tag.content()?)))
            }
            _ => None,
        })
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

pub(crate) const ADDRESS_KEY_LEN: usize = 50;

/// Kind, digest of `d`, author: all authors of one `(kind, d)` stand side by side.
pub(crate) type AddressKey = [u8; ADDRESS_KEY_LEN];

pub(crate) fn address_key(kind: u16, d: &Digest16, author: &[u8; 32]) -> AddressKey {
    let mut key = [0; ADDRESS_KEY_LEN];
    key[..18].copy_from_slice(&kind_and_d(kind, d));
    key[18..].copy_from_slice(author);
    key
}

pub(crate) fn address_key_of(address: &Address) -> AddressKey {
    let kind = address.kind.as_u16();
    address_key(kind, &digest(&address.d), address.author.as_bytes())
}

pub(crate) fn kind_and_d(kind: u16, d: &Digest16) -> [u8; 18] {
    let mut key = [0; 18];
    key[..2].copy_from_slice(&kind.to_be_bytes());
    key[2..].copy_from_slice(d);
    key
}

pub(crate) const AUTHOR_KIND_LEN: usize = 34;

pub(crate) type AuthorKind = [u8; AUTHOR_KIND_LEN];

pub(crate) fn author_kind(author: &[u8; 32], kind: u16) -> AuthorKind {
    let mut key = [0; AUTHOR_KIND_LEN];
    key[..32].copy_from_slice(author);
    key[32..].copy_from_slice(&kind.to_be_bytes());
    key
}

/// Beginnings of keys that say what a request is about; the id of the request follows.
///
/// An id stands with the author who asked for its deletion, so that a stranger's request never matches.
pub(crate) fn target_id(id: &[u8; 32], author: &[u8; 32]) -> Vec<u8> {
    [&[0], &id[..], author].concat()
}

pub(crate) fn target_address(address: &AddressKey) -> Vec<u8> {
    [&[1], &address[..]].concat()
}

/// Everything of an author.
pub(crate) fn target_author(author: &[u8; 32]) -> Vec<u8> {
    [&[2], &author[..]].concat()
}

/// Everything of an author, which is still to be taken out.
pub(crate) fn vanishing_author(author: &[u8; 32]) -> Vec<u8> {
    [&VANISHING[..], &author[..]].concat()
}

/// What the keys of requests to vanish begin with that are not carried out yet.
pub(crate) const VANISHING: [u8; 1] = [3];

/// The beginning of the keys of an address in the history: author, kind, digest of `d`.
pub(crate) fn history(address: &AddressKey) -> Vec<u8> {
    [&address[18..], &address[..18]].concat()
}

pub(crate) fn expiration(at: u64, id: &[u8; 32]) -> [u8; 40] {
    let mut key = [0; 40];
    key[..8].copy_from_slice(&at.to_be_bytes());
    key[8..].copy_from_slice(id);
    key
}

/// Names an event inside the store; grows with every event, so that records are appended.
pub(crate) type Serial = [u8; 8];

/// What an index says of an event besides its position, so that most checks need no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) serial: Serial,
    pub(crate) kind: u16,
    pub(crate) expiration: Option<u64>,
}

impl Entry {
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expiration.is_some_and(|at| at <= now)
    }

    /// Writes the entry into `buffer` and returns the used part.
    pub(crate) fn encode<'b>(&self, buffer: &'b mut [u8; 18]) -> &'b [u8] {
        buffer[..8].copy_from_slice(&self.serial);
        buffer[8..10].copy_from_slice(&self.kind.to_be_bytes());
        match self.expiration {
            Some(at) => {
                buffer[10..].copy_from_slice(&at.to_be_bytes());
                &buffer[..]
            }
            None => &buffer[..10],
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Corrupt("an index entry has the wrong length");
        let (serial, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
        let (kind, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let expiration = match rest {
            [] => None,
            rest => Some(u64::from_be_bytes(rest.try_into().map_err(|_| damaged())?)),
        };
        Ok(Self {
            serial: *serial,
            kind: u16::from_be_bytes(*kind),
            expiration,
        })
    }
}
