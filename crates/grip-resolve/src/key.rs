//! Keys of the resolver, and the record keys of the network that belong to them.

use std::{fmt, str::FromStr};

use grip_dht::{PeerName, RecordKey};
use grip_nostr::{RepoAddr, kinds};
use grip_types::{Identifier, InvalidIdentifier};
use nostr::prelude::{FromBech32, Nip19Coordinate};

use crate::manifest::{InvalidManifestId, ManifestId};

/// Longest text of a key.
pub const MAX_LEN: usize = 2_048;

/// A key to resolve.
///
/// Read from `<npub>/<identifier>`, with or without `name:` before it, from `naddr1…` and `nostr://…`
/// of a repository, or from `b3:<hex>`; written as `name:…` or `b3:…`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// The newest manifest of a repository.
    Name(RepoAddr),
    /// One manifest, for ever the same.
    Manifest(ManifestId),
}

/// Why a text is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    #[error(
        "a key is `<npub>/<identifier>`, `nostr://<npub>/<identifier>`, `naddr1…` or \
         `b3:<64 hex digits>`"
    )]
    Form,
    #[error("a key has at most {MAX_LEN} bytes")]
    TooLong,
    #[error("a name has an owner and an identifier with a slash between: `<npub>/<identifier>`")]
    NoSlash,
    #[error("the owner in a name is an npub in lower case; its checksum must be right")]
    Owner,
    #[error(transparent)]
    Identifier(#[from] InvalidIdentifier),
    #[error("this naddr cannot be read: a letter is wrong or missing, or some are upper case")]
    Naddr,
    #[error("this naddr names something of kind {0}; repositories are of kind 30617")]
    Kind(u16),
    #[error(transparent)]
    Manifest(#[from] InvalidManifestId),
}

impl Key {
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        if text.len() > MAX_LEN {
            return Err(InvalidKey::TooLong);
        }
        if let Some(name) = text.strip_prefix("name:") {
            parse_name(name).map(Self::Name)
        } else if text.starts_with("npub1") {
            parse_name(text).map(Self::Name)
        } else if let Some(rest) = text.strip_prefix("nostr://") {
            parse_url(rest).map(Self::Name)
        } else if text.starts_with("b3:") {
            Ok(Self::Manifest(ManifestId::parse(text)?))
        } else if text.starts_with("naddr1") {
            parse_naddr(text).map(Self::Name)
        } else {
            Err(InvalidKey::Form)
        }
    }

    /// The key of its record in the network.
    pub fn record(&self) -> RecordKey {
        match self {
            Self::Name(name) => record(&format!("gripfast/name/{name}")),
            Self::Manifest(id) => record(&format!("gripfast/b3/{}", id.to_hex())),
        }
    }
}

/// The key of a node record in the network.
pub fn node_record_key(peer: &PeerName) -> RecordKey {
    record(&format!("gripfast/node/{peer}"))
}

fn record(text: &str) -> RecordKey {
    RecordKey::from(*blake3::hash(text.as_bytes()).as_bytes())
}

fn parse_name(text: &str) -> Result<RepoAddr, InvalidKey> {
    let (npub, identifier) = text.split_once('/').ok_or(InvalidKey::NoSlash)?;
    let owner = RepoAddr::parse_npub(npub).ok_or(InvalidKey::Owner)?;
    Ok(RepoAddr::new(owner, Identifier::parse(identifier)?))
}

/// Reads what follows `nostr://`: an owner, hints of relays that do not matter here, and the
/// identifier, percent-encoded; or an `naddr1…`.
fn parse_url(rest: &str) -> Result<RepoAddr, InvalidKey> {
    let rest = rest.trim_end_matches('/');
    if rest.starts_with("naddr1") {
        return parse_naddr(rest);
    }
    let (before, identifier) = rest.rsplit_once('/').ok_or(InvalidKey::NoSlash)?;
    let owner = before.split('/').next().unwrap_or(before);
    let owner = RepoAddr::parse_npub(owner).ok_or(InvalidKey::Owner)?;
    Ok(RepoAddr::new(owner, Identifier::from_encoded(identifier)?))
}

fn parse_naddr(text: &str) -> Result<RepoAddr, InvalidKey> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(InvalidKey::Naddr);
    }
    let found = Nip19Coordinate::from_bech32(text).map_err(|_| InvalidKey::Naddr)?;
    let coordinate = found.coordinate;
    if coordinate.kind != kinds::ANNOUNCEMENT {
        return Err(InvalidKey::Kind(coordinate.kind.as_u16()));
    }
    // A lenient reader puts it in place of bytes that are no UTF-8.
    if coordinate.identifier.contains(char::REPLACEMENT_CHARACTER) {
        return Err(InvalidKey::Naddr);
    }
    let identifier = Identifier::parse(&coordinate.identifier)?;
    Ok(RepoAddr::new(coordinate.public_key, identifier))
}

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::parse(text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "name:{name}"),
            Self::Manifest(id) => id.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
