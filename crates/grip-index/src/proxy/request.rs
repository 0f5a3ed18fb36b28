//! Parsing of proxy requests.
//!
//! Everything comes from strangers: what is read is a valid module path and a version or a name
//! of bounded length, or nothing.

use grip_go::{ModulePath, Version};
use grip_types::percent_decode;

use super::ProxyError;

/// Longest path looked at: an escaped module path and an escaped version fit twice over.
const MAX_BYTES: usize = 8 << 10;
/// Longest branch, tag or commit id.
const MAX_REVISION_BYTES: usize = 255;

/// One question of the go command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `<module>/@v/list`
    List(ModulePath),
    /// `<module>/@latest`
    Latest(ModulePath),
    /// `<module>/@v/<version or revision>.info`
    Info(ModulePath, Query),
    /// `<module>/@v/<version>.mod`
    GoMod(ModulePath, Version),
    /// `<module>/@v/<version>.zip`
    Zip(ModulePath, Version),
}

/// Which version is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    Version(Version),
    /// A branch, a tag or the beginning of a commit's id.
    Revision(String),
}

impl Request {
    /// Reads the path of a URL behind the proxy's own, percent-encoded as it came.
    pub fn parse(path: &str) -> Result<Self, ProxyError> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let asked = if path.is_empty() { "/" } else { path };
        let unknown = |reason: &str| ProxyError::not_found(shown(asked), reason);
        if path.len() > MAX_BYTES {
            return Err(unknown("the path is too long"));
        }
        let decoded = percent_decode(path).and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or_else(|| unknown("the path is no text"))?;
        let module = |escaped: &str| {
            let path = ModulePath::unescape(escaped);
            path.map_err(|invalid| ProxyError::not_found(shown(escaped), invalid))
        };
        if let Some(escaped) = decoded.strip_suffix("/@latest") {
            return Ok(Self::Latest(module(escaped)?));
        }
        let Some((escaped, file)) = decoded.split_once("/@v/") else {
            return Err(unknown("a module proxy has no such file"));
        };
        let module = module(escaped)?;
        if file == "list" {
            return Ok(Self::List(module));
        }
        let (name, extension) = file
            .rsplit_once('.')
            .ok_or_else(|| unknown("a module proxy has no such file"))?;
        match extension {
            "info" => Ok(Self::Info(module, query(name)?)),
            "mod" => Ok(Self::GoMod(module, version(name)?)),
            "zip" => Ok(Self::Zip(module, version(name)?)),
            _ => Err(unknown("a module proxy has no such file")),
        }
    }

    pub fn module(&self) -> &ModulePath {
        match self {
            Self::List(module) | Self::Latest(module) => module,
            Self::Info(module, _) | Self::GoMod(module, _) | Self::Zip(module, _) => module,
        }
    }
}

fn version(escaped: &str) -> Result<Version, ProxyError> {
    let version = Version::unescape(escaped);
    version.map_err(|invalid| ProxyError::not_found(shown(escaped), invalid))
}

fn query(escaped: &str) -> Result<Query, ProxyError> {
    if let Ok(version) = Version::unescape(escaped) {
        return Ok(Query::Version(version));
    }
    let revision = unescape(escaped).filter(|name| is_revision(name));
    let revision = revision.ok_or_else(|| {
        ProxyError::not_found(
            shown(escaped),
            "no version and no name of a branch or commit",
        )
    })?;
    Ok(Query::Revision(revision))
}

/// What go sends as one: plain letters, digits and a few signs.
fn is_revision(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~+#@=,".contains(&b);
    (1..=MAX_REVISION_BYTES).contains(&name.len()) && name.bytes().all(plain)
}

/// Undoes Go's `!x` for `X`; capital letters do not stand for themselves.
fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut characters = escaped.chars();
    while let Some(character) = characters.next() {
        match character {
            '!' => {
                let letter = characters.next().filter(char::is_ascii_lowercase)?;
                name.push(letter.to_ascii_uppercase());
            }
            'A'..='Z' => return None,
            other => name.push(other),
        }
    }
    Some(name)
}

/// A stranger's text, short enough for an answer and without what a terminal would obey.
fn shown(text: &str) -> String {
    const LONGEST: usize = 200;
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(LONGEST).map(plain).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests;
