//! Repositories by owner and identifier.

use std::fmt;

use grip_types::Identifier;
use nostr::prelude::{FromBech32, PublicKey, ToBech32};

use crate::{Address, kinds};

/// One owner's repository: what `30617:<pubkey>:<d>` and `/<npub>/<identifier>.git` both name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoAddr {
    pub owner: PublicKey,
    pub identifier: Identifier,
}

impl RepoAddr {
    pub fn new(owner: PublicKey, identifier: Identifier) -> Self {
        Self { owner, identifier }
    }

    /// The owner's NIP-19 name.
    pub fn npub(&self) -> String {
        self.owner
            .to_bech32()
            .expect("every public key has an npub")
    }

    /// Reads an npub with its checksum, in lower case only; hex keys are not accepted here.
    pub fn parse_npub(text: &str) -> Option<PublicKey> {
        let plausible = text.len() == 63 && text.starts_with("npub1");
        if !plausible || text.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        PublicKey::from_bech32(text).ok()
    }

    /// Reads the two path segments `<npub>` and `<percent-encoded identifier>.git`.
    pub fn from_segments(npub: &str, repository: &str) -> Option<Self> {
        let owner = Self::parse_npub(npub)?;
        let identifier = Identifier::from_encoded(repository.strip_suffix(".git")?).ok()?;
        Some(Self { owner, identifier })
    }

    /// `<npub>/<percent-encoded identifier>.git`
    pub fn path(&self) -> String {
        format!("{}/{}.git", self.npub(), self.identifier.encoded())
    }

    /// The coordinate of the announcement.
    pub fn announcement(&self) -> Address {
        Address {
            kind: kinds::ANNOUNCEMENT,
            author: self.owner,
            d: self.identifier.as_str().to_owned(),
        }
    }

    /// The repository that an announcement or state address speaks of.
    pub fn from_address(address: &Address) -> Option<Self> {
        let about_a_repository = [kinds::ANNOUNCEMENT, kinds::STATE].contains(&address.kind);
        let identifier = Identifier::parse(&address.d).ok()?;
        about_a_repository.then(|| Self::new(address.author, identifier))
    }
}

impl fmt::Display for RepoAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.npub(), self.identifier)
    }
}
