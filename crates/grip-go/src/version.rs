//! Module versions: `v1.2.3`, `v1.2.3-rc.1`, `v2.0.0+incompatible`.
//!
//! Invariant: a [`Version`] is canonical in Go's sense: all three numbers, no leading zeros, and no
//! build part but `+incompatible`.

pub(crate) mod parts;

use std::{cmp::Ordering, fmt, str::FromStr};

use parts::Parts;

use crate::{
    ModulePath,
    display_text::{Shown, shown},
    escape, pseudo,
};

const INCOMPATIBLE: &str = "+incompatible";

/// A version of a module.
///
/// The order is that of Go's `semver.Sort`: by precedence, and by text where that is equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Version(String);

/// Why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no canonical version, such as v1.2.3 or v1.2.3-rc.1")]
pub struct InvalidVersion(pub Shown);

impl Version {
    /// Ours, not Go's: no file system keeps a longer name.
    pub const MAX_BYTES: usize = 255;

    /// Reads a canonical version.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        let canonical = text.len() <= Self::MAX_BYTES
            && Parts::read(text).is_some_and(|parts| matches!(parts.build, "" | "incompatible"));
        if canonical {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidVersion(shown(text.as_bytes())))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The major version with its letter, as in "v2".
    pub fn major(&self) -> &str {
        &self.0[..1 + self.parts().major.len()]
    }

    /// Whether it comes before a release: `v1.2.3-rc.1`, and every pseudo-version.
    pub fn is_prerelease(&self) -> bool {
        !self.parts().pre.is_empty()
    }

    /// Whether it was made from a commit that has no tag.
    pub fn is_pseudo(&self) -> bool {
        pseudo::parts(self).is_some()
    }

    /// Whether it is a v2 or later of a repository without go.mod.
    pub fn is_incompatible(&self) -> bool {
        self.0.ends_with(INCOMPATIBLE)
    }

    /// The version that the tag in the repository says: without `+incompatible`.
    pub fn in_tag(&self) -> &str {
        self.0.strip_suffix(INCOMPATIBLE).unwrap_or(&self.0)
    }

    /// Whether the path's major version is this one's, as Go demands.
    pub fn fits(&self, path: &ModulePath) -> bool {
        match path.major() {
            None => matches!(self.major(), "v0" | "v1") || self.is_incompatible(),
            // Go once made v0 pseudo-versions for .v1 paths, and still takes them.
            Some("v1") if self.0.starts_with("v0.0.0-") => true,
            Some(major) => self.major() == major,
        }
    }

    /// The form for URLs and file names: `!x` for each capital letter `X`.
    pub fn escape(&self) -> String {
        escape::escape(&self.0)
    }

    /// Reads the form of [`escape`](Self::escape).
    pub fn unescape(escaped: &str) -> Result<Self, InvalidVersion> {
        let invalid = || InvalidVersion(shown(escaped.as_bytes()));
        if escaped.len() > 2 * Self::MAX_BYTES {
            return Err(invalid());
        }
        let text = escape::unescape(escaped).map_err(|_| invalid())?;
        Self::parse(&text).map_err(|_| invalid())
    }

    pub(crate) fn with_incompatible(&self) -> Result<Self, InvalidVersion> {
        Self::parse(&format!("{}{INCOMPATIBLE}", self.in_tag()))
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts::read(&self.0).expect("because it was checked when it was made")
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts()
            .precedence(&other.parts())
            .then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        Self::parse(text)
    }
}

impl AsRef<str> for Version {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests;
