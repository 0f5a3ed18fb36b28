//! Module paths: `example.com/group/name/v2`.
//!
//! Invariant: a [`ModulePath`] is valid by Go's `module.CheckPath` and at most
//! [`ModulePath::MAX_BYTES`] long, so it is plain ASCII, safe in a URL, and has no `..`.

pub(crate) mod element;

use std::{fmt, str::FromStr};

pub use element::Flaw;
use element::Kind;

use crate::{
    display_text::{Shown, shown},
    escape,
};

/// The path of a module, as in the `module` line of its go.mod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModulePath(String);

/// Why a text is no module path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} is no module path: {flaw}")]
pub struct InvalidPath {
    pub path: Shown,
    pub flaw: Flaw,
}

impl ModulePath {
    /// Ours, not Go's: what is longer fits into no file system once it is in a module cache.
    pub const MAX_BYTES: usize = 1024;

    /// Checks a path by Go's rules.
    pub fn parse(path: &str) -> Result<Self, InvalidPath> {
        match check(path) {
            Ok(()) => Ok(Self(path.to_owned())),
            Err(flaw) => Err(InvalidPath {
                path: shown(path.as_bytes()),
                flaw,
            }),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form for URLs and file names: `!x` for each capital letter `X`.
    pub fn escape(&self) -> String {
        escape::escape(&self.0)
    }

    /// Reads the form of [`escape`](Self::escape).
    pub fn unescape(escaped: &str) -> Result<Self, InvalidPath> {
        let invalid = |flaw| InvalidPath {
            path: shown(escaped.as_bytes()),
            flaw,
        };
        if escaped.len() > 2 * Self::MAX_BYTES {
            let max = Self::MAX_BYTES;
            return Err(invalid(Flaw::TooLong { max }));
        }
        let path = escape::unescape(escaped).map_err(|c| invalid(Flaw::Character(c)))?;
        Self::parse(&path)
    }

    /// The path in two parts: `/v2` and above (`.v0` and above, perhaps with `-unstable`, on
    /// gopkg.in) is the major version; it is empty for v0 and v1 elsewhere.
    pub fn prefix_and_major(&self) -> (&str, &str) {
        split_major(&self.0).unwrap_or((&self.0, ""))
    }

    /// The major version that the path asks for, as in "v2"; none for v0 and v1.
    pub(crate) fn major(&self) -> Option<&str> {
        let (_, major) = self.prefix_and_major();
        let major = major.strip_suffix("-unstable").unwrap_or(major);
        major.strip_prefix(['/', '.'])
    }

    /// Whether this path is `root` or below it, element by element.
    pub fn is_within(&self, root: &ModulePath) -> bool {
        below(&self.0, &root.0).is_some()
    }
}

/// What follows `root` in `path`, without the slash between them; none if it is elsewhere.
pub(crate) fn below<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(root)?;
    if rest.is_empty() {
        return Some(rest);
    }
    rest.strip_prefix('/')
}

fn check(path: &str) -> Result<(), Flaw> {
    if path.len() > ModulePath::MAX_BYTES {
        let max = ModulePath::MAX_BYTES;
        return Err(Flaw::TooLong { max });
    }
    if path.starts_with('-') {
        return Err(Flaw::LeadingDash);
    }
    element::check_all(path, Kind::Module)?;
    let domain = path.split('/').next().unwrap_or_default();
    if !domain.contains('.') {
        return Err(Flaw::NoDomain);
    }
    let in_domain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if let Some(bad) = domain.chars().find(|&c| !in_domain(c)) {
        return Err(Flaw::DomainCharacter(bad));
    }
    split_major(path).map(|_| ()).ok_or(Flaw::Major)
}

/// Cuts the major version off; none where the end looks like one and is none that Go allows.
fn split_major(path: &str) -> Option<(&str, &str)> {
    if path.starts_with("gopkg.in/") {
        return split_gopkg_in(path);
    }
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let Some((prefix, number)) = path
        .trim_end_matches(is_number)
        .strip_suffix("/v")
        .map(|prefix| (prefix, &path[prefix.len() + "/v".len()..]))
    else {
        return Some((path, ""));
    };
    match number {
        "" => Some((path, "")),
        "1" => None,
        _ if number.contains('.') || number.starts_with('0') => None,
        _ => Some((prefix, &path[prefix.len()..])),
    }
}

fn split_gopkg_in(path: &str) -> Option<(&str, &str)> {
    let stable = path.strip_suffix("-unstable").unwrap_or(path);
    let prefix = stable
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .strip_suffix(".v")?;
    let number = &stable[prefix.len() + ".v".len()..];
    let allowed = !number.is_empty()
        && (!number.starts_with('0') || stable.len() == path.len() && number == "0");
    allowed.then(|| (prefix, &path[prefix.len()..]))
}

impl FromStr for ModulePath {
    type Err = InvalidPath;

    fn from_str(path: &str) -> Result<Self, InvalidPath> {
        Self::parse(path)
    }
}

impl AsRef<str> for ModulePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ModulePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

#[cfg(test)]
mod tests;
