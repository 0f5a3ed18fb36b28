//! The module path and Go version of a go.mod file.
//!
//! As lenient as Go is with a dependency: all that concerns other lines (unknown words, broken
//! strings, comments in another encoding) is not looked at.

mod notices;
mod quoted;
mod statements;

pub use notices::{Notices, Retraction};
use statements::{Statement, Statements};

use crate::{InvalidPath, ModulePath};

/// The largest go.mod that Go takes.
pub const MAX_BYTES: usize = 16 << 20;

/// Why a go.mod names no module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Bad {
    #[error("go.mod is larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    #[error("go.mod is not UTF-8 text")]
    NotUtf8,
    #[error("go.mod has no module line")]
    Missing,
    #[error("go.mod has a second module line, line {line}")]
    Twice { line: usize },
    #[error("line {line} of go.mod is not the word module and one path")]
    Malformed { line: usize },
    #[error("line {line} of go.mod: {source}")]
    Path { line: usize, source: InvalidPath },
}

/// Reads the path in the module line.
pub fn module_path(text: &[u8]) -> Result<ModulePath, Bad> {
    if text.len() > MAX_BYTES {
        return Err(Bad::TooLarge);
    }
    let mut lines = Statements::of(text).filter(|statement| statement.verb == b"module");
    match (lines.next(), lines.next()) {
        (Some(statement), None) => read_path(&statement),
        (Some(_), Some(second)) => Err(Bad::Twice { line: second.line }),
        (None, _) if std::str::from_utf8(text).is_err() => Err(Bad::NotUtf8),
        (None, _) => Err(Bad::Missing),
    }
}

fn read_path(statement: &Statement<'_>) -> Result<ModulePath, Bad> {
    let line = statement.line;
    let word = std::str::from_utf8(statement.argument).map_err(|_| Bad::NotUtf8)?;
    if statement.arguments != 1 {
        return Err(Bad::Malformed { line });
    }
    let path = quoted::unquote(word).ok_or(Bad::Malformed { line })?;
    ModulePath::parse(&path).map_err(|source| Bad::Path { line, source })
}

/// The version of the language that a module is written in: `go 1.24.1` says 1.24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Language {
    pub major: u32,
    pub minor: u32,
}

/// Reads the go line; none where it is missing, twice, or no version.
pub fn language(text: &[u8]) -> Option<Language> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let is_go = |statement: &Statement<'_>| statement.verb == b"go" && !statement.in_block;
    let mut lines = Statements::of(text).filter(is_go);
    let line = lines.next().filter(|line| line.arguments == 1)?;
    if lines.next().is_some() {
        return None;
    }
    read_language(std::str::from_utf8(line.argument).ok()?)
}

/// Two numbers, and whatever else a release or a careless hand adds behind them.
fn read_language(version: &str) -> Option<Language> {
    let (marked, version) = match version.strip_prefix('v') {
        Some(rest) => (true, rest),
        None => (false, version),
    };
    let (major, rest) = version.split_once('.')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    if marked && end == rest.len() {
        return None;
    }
    let number = |digits: &str| {
        let plain = digits == "0" || !digits.starts_with(['0', '+']);
        plain.then(|| digits.parse().ok()).flatten()
    };
    let language = Language {
        major: number(major)?,
        minor: number(&rest[..end])?,
    };
    (language.major > 0).then_some(language)
}

#[cfg(test)]
mod tests;
