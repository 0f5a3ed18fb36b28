//! Hashes of the Merkle tree (RFC 6962 §2.1).

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

/// A hash of a record or of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; Hash::BYTES]);

/// Why a text is no hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a hash is the base64 of 32 bytes")]
pub struct InvalidHash;

impl Hash {
    pub const BYTES: usize = 32;

    /// The hash of a tree without records.
    pub fn empty() -> Self {
        Self(Sha256::digest([]).into())
    }
}

/// The hash of a record.
pub fn record_hash(record: &[u8]) -> Hash {
    let mut digest = Sha256::new();
    digest.update([0]);
    digest.update(record);
    Hash(digest.finalize().into())
}

/// The hash of the node above two others.
pub fn node_hash(left: Hash, right: Hash) -> Hash {
    let mut digest = Sha256::new();
    digest.update([1]);
    digest.update(left.0);
    digest.update(right.0);
    Hash(digest.finalize().into())
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Hash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        // Longer ones are not even decoded.
        if text.len() != 44 {
            return Err(InvalidHash);
        }
        let bytes = STANDARD.decode(text).map_err(|_| InvalidHash)?;
        bytes.try_into().map(Self).map_err(|_| InvalidHash)
    }
}
