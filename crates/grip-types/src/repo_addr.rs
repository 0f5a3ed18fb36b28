//! The address of a repository: its owner's public key, its identifier, and where it is found.

use std::fmt;

use nostr::prelude::{FromBech32, PublicKey, ToBech32};

use crate::Identifier;

/// What the paths of contributor repositories begin with (GRASP-06).
pub const CONTRIBUTORS: &str = "prs";

/// One owner's repository: what `30617:<pubkey>:<d>` and `/<npub>/<identifier>.git` both name.
///
/// Or a contributor repository, which nobody announces: `/prs/<npub>/<identifier>.git` has the tips of
/// pull requests that the owner signed for a repository of this identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoAddr {
    pub owner: PublicKey,
    pub identifier: Identifier,
    is_contributor: bool,
}

impl RepoAddr {
    pub fn new(owner: PublicKey, identifier: Identifier) -> Self {
        Self {
            owner,
            identifier,
            is_contributor: false,
        }
    }

    /// The contributor repository of one who signs pull requests for `identifier`.
    pub fn contributor(signer: PublicKey, identifier: Identifier) -> Self {
        Self {
            is_contributor: true,
            ..Self::new(signer, identifier)
        }
    }

    pub fn is_contributor(&self) -> bool {
        self.is_contributor
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
        Some(Self::new(owner, identifier))
    }

    /// The contributor repository that the two segments behind `prs` name.
    pub fn contributor_from_segments(npub: &str, repository: &str) -> Option<Self> {
        let Self {
            owner, identifier, ..
        } = Self::from_segments(npub, repository)?;
        Some(Self::contributor(owner, identifier))
    }

    /// `<npub>/<percent-encoded identifier>.git`, below `prs/` where it is a contributor's.
    pub fn path(&self) -> String {
        let Self { identifier, .. } = self;
        format!(
            "{}{}/{}.git",
            self.prefix(),
            self.npub(),
            identifier.encoded()
        )
    }

    fn prefix(&self) -> &'static str {
        if self.is_contributor { "prs/" } else { "" }
    }
}

impl fmt::Display for RepoAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}/{}", self.prefix(), self.npub(), self.identifier)
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
        let contributor = RepoAddr::contributor_from_segments(npub, "x.git").expect("valid");
        assert_eq!(contributor.path(), format!("prs/{npub}/x.git"));
        assert!(contributor != addr && contributor.is_contributor());
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
