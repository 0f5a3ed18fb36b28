//! Claims of owners to module paths other than their clone URL.

use std::fmt;

use grip_go::ModulePath;
use grip_nostr::RepoAddr;

/// The operator's word that an owner's repositories speak for all paths below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    prefix: ModulePath,
    npub: String,
}

/// Why a text is no claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidClaim {
    #[error("{0:?} is not of the form prefix=npub1…")]
    Form(String),
    #[error("{0}")]
    Prefix(#[from] grip_go::InvalidPath),
    #[error("{0:?} is no npub")]
    Npub(String),
}

impl Claim {
    /// Takes a prefix such as `example.com/lib` and the npub of the owner who may claim it.
    pub fn new(prefix: &str, npub: &str) -> Result<Self, InvalidClaim> {
        let prefix = ModulePath::parse(prefix.trim_end_matches('/'))?;
        if RepoAddr::parse_npub(npub).is_none() {
            return Err(InvalidClaim::Npub(npub.chars().take(80).collect()));
        }
        let npub = npub.to_owned();
        Ok(Self { prefix, npub })
    }

    /// Reads `example.com/lib=npub1…`.
    pub fn parse(text: &str) -> Result<Self, InvalidClaim> {
        let (prefix, npub) = text
            .split_once('=')
            .ok_or_else(|| InvalidClaim::Form(text.chars().take(300).collect()))?;
        Self::new(prefix.trim(), npub.trim())
    }

    /// Whether repositories of `npub` may speak for `path`; the prefix counts in whole elements.
    pub(super) fn allows(&self, npub: &str, path: &ModulePath) -> bool {
        self.npub == npub && path.is_within(&self.prefix)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.prefix, self.npub)
    }
}
