//! Peers: their names and addresses.

use std::{fmt, str::FromStr, sync::Arc};

use sha2::{Digest as _, Sha256};

use crate::limits;

/// The name of a peer: the digest of its public key as text, `12D3KooW…`.
///
/// Cheap to clone. A connection to a peer proves that the peer owns its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerName {
    /// Decides equality and order: the place follows from it.
    text: Arc<str>,
    /// Digest of the name's bytes: its position among the keys.
    place: [u8; 32],
}

/// A text that names no peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a peer is named by up to {} letters of base58, as 12D3KooW…",
    limits::NAME_BYTES
)]
pub struct InvalidPeerName;

impl PeerName {
    pub fn parse(text: &str) -> Result<Self, InvalidPeerName> {
        if text.is_empty() || text.len() > limits::NAME_BYTES {
            return Err(InvalidPeerName);
        }
        let bytes = bs58::decode(text).into_vec().map_err(|_| InvalidPeerName)?;
        Ok(Self::build(text, &bytes))
    }

    /// The name with these bytes, of which there are some forty.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, InvalidPeerName> {
        // A name that is too long in bytes is too long in letters as well.
        if bytes.is_empty() || bytes.len() > limits::NAME_BYTES {
            return Err(InvalidPeerName);
        }
        let text = bs58::encode(bytes).into_string();
        if text.len() > limits::NAME_BYTES {
            return Err(InvalidPeerName);
        }
        Ok(Self::build(&text, bytes))
    }

    fn build(text: &str, bytes: &[u8]) -> Self {
        Self {
            text: text.into(),
            place: Sha256::digest(bytes).into(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = bs58::decode(&*self.text).into_vec();
        bytes.expect("because it was read or written as base58")
    }

    pub(crate) fn place(&self) -> &[u8; 32] {
        &self.place
    }
}

impl FromStr for PeerName {
    type Err = InvalidPeerName;

    fn from_str(text: &str) -> Result<Self, InvalidPeerName> {
        Self::parse(text)
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerName({})", self.text)
    }
}

/// A peer and the addresses at which it may be found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    pub id: PeerName,
    /// Multiaddrs without the name, at most [`limits::ADDRESSES`]. What a stranger said of
    /// another: filtered again before one is dialled.
    pub addresses: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_and_kept_as_it_was_written() {
        let text = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";
        let name = PeerName::parse(text).unwrap();
        assert_eq!(name.as_str(), text);
        assert_eq!(PeerName::from_bytes(&name.to_bytes()).unwrap(), name);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "12D3Koo0", "12D3Koo/", "ä", &"2".repeat(65)] {
            assert_eq!(PeerName::parse(text), Err(InvalidPeerName), "{text:?}");
        }
        assert_eq!(PeerName::from_bytes(&[255; 64]), Err(InvalidPeerName));
    }
}
