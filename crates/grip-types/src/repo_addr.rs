//! The address of a repository: its owner's public key and its identifier.

use std::fmt;

use nostr::prelude::{FromBech32, PublicKey, ToBech32};

use crate::Identifier;

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
}

impl fmt::Display for RepoAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.npub(), self.identifier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_npub_name_no_repository() {
        let npub = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        let addr = RepoAddr::from_segments(npub, "x.git").expect("valid");
        assert_eq!(addr.path(), format!("{npub}/x.git"));
        let shouted = npub.to_uppercase();
        let miscopied = npub.replace('z', "y");
        for bad in [
            "",
            "..",
            "npub1../x",
            ".objects",
            "npub1/x",
            "nprofile1x",
            &shouted,
            &miscopied,
        ] {
            assert_eq!(RepoAddr::from_segments(bad, "x.git"), None, "{bad}");
        }
    }
}
