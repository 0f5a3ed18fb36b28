//! Keys of records, and how far a peer is from one.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{PeerName, limits};

/// Where a record lies: 1 to [`limits::KEY_BYTES`] bytes, best a digest.
///
/// Peers reject nothing by its key alone; [`crate::RecordValidator`] knows which keys mean something.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(Vec<u8>);

/// A key that is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a record key has 1 to {} bytes, this one has {bytes}",
    limits::KEY_BYTES
)]
pub struct InvalidKey {
    bytes: usize,
}

impl RecordKey {
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, InvalidKey> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.len() > limits::KEY_BYTES {
            return Err(InvalidKey { bytes: bytes.len() });
        }
        Ok(Self(bytes))
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// How far `peer` is from this key: the measure that the whole network shares.
    pub fn distance(&self, peer: &PeerName) -> Distance {
        Distance::between(&Sha256::digest(&self.0).into(), peer.place())
    }
}

impl From<[u8; 32]> for RecordKey {
    fn from(digest: [u8; 32]) -> Self {
        Self(digest.to_vec())
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKey({self})")
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&faster_hex::hex_string(&self.0))
    }
}

/// How far two places are from each other; the smaller, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Distance([u8; 32]);

impl Distance {
    pub(crate) fn between(one: &[u8; 32], other: &[u8; 32]) -> Self {
        Self(std::array::from_fn(|i| one[i] ^ other[i]))
    }

    /// Big-endian: compares as the number it is.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// How many leading bits the two places share: 0 is the far half of the network.
    pub fn shared_bits(&self) -> u32 {
        let first = self.0.iter().position(|byte| *byte != 0);
        first.map_or(256, |i| i as u32 * 8 + self.0[i].leading_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_a_length() {
        assert_eq!(RecordKey::new([]), Err(InvalidKey { bytes: 0 }));
        assert!(RecordKey::new([7; 64]).is_ok());
        assert_eq!(RecordKey::new([7; 65]), Err(InvalidKey { bytes: 65 }));
    }

    #[test]
    fn shared_bits_are_counted_from_the_front() {
        let place = |first: u8| {
            let mut place = [0; 32];
            place[0] = first;
            place
        };
        let bits = |a, b| Distance::between(&place(a), &place(b)).shared_bits();
        assert_eq!(bits(0, 0x80), 0);
        assert_eq!(bits(0x80, 0x81), 7);
        assert_eq!(bits(9, 9), 256);
    }
}
