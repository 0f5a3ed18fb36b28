//! Full git ref names.

use std::{fmt, sync::Arc};

/// Longest ref name taken; git itself stops at what a file system allows.
const MAX_LEN: usize = 1024;

/// A full ref name (`refs/…`) that passes `git check-ref-format`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefName(Arc<str>);

/// Why a text is no ref name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid ref name: {0}")]
pub struct InvalidRefName(&'static str);

impl RefName {
    pub fn parse(name: &str) -> Result<Self, InvalidRefName> {
        check(name).map_err(InvalidRefName)?;
        Ok(Self(name.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Says whether this is a branch.
    pub fn is_head(&self) -> bool {
        self.0.starts_with("refs/heads/")
    }

    /// Says whether this is a tag.
    pub fn is_tag(&self) -> bool {
        self.0.starts_with("refs/tags/")
    }

    /// Says whether a state event speaks for this ref.
    pub fn is_state_ref(&self) -> bool {
        self.is_head() || self.is_tag()
    }

    /// The hex event id of `refs/nostr/<event-id>`, if the name is exactly that.
    pub fn nostr_event_id(&self) -> Option<[u8; 32]> {
        let hex = self.0.strip_prefix("refs/nostr/")?;
        if hex.len() != 64 || hex.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        let mut id = [0; 32];
        faster_hex::hex_decode(hex.as_bytes(), &mut id).ok()?;
        Some(id)
    }

    /// The ref that holds the tip of the pull request event `id`.
    pub fn for_nostr_event(id: &[u8; 32]) -> Self {
        Self(format!("refs/nostr/{}", faster_hex::hex_string(id)).into())
    }

    /// Says whether the name lies under `refs/nostr/`, well formed or not.
    pub fn is_under_nostr(&self) -> bool {
        self.0.starts_with("refs/nostr/")
    }

    /// The name without `refs/heads/` or `refs/tags/`, for people.
    pub fn short(&self) -> &str {
        self.0
            .strip_prefix("refs/heads/")
            .or_else(|| self.0.strip_prefix("refs/tags/"))
            .unwrap_or(&self.0)
    }
}

/// The rules of `git check-ref-format`, for full names below `refs/`.
fn check(name: &str) -> Result<(), &'static str> {
    if name.len() > MAX_LEN {
        return Err("longer than 1024 bytes");
    }
    if !name.starts_with("refs/") {
        return Err("does not start with refs/");
    }
    if name.ends_with('.') {
        return Err("ends with a dot");
    }
    if name.contains("..") || name.contains("@{") {
        return Err("contains `..` or `@{`");
    }
    let forbidden = |b: u8| b < 0x20 || b == 0x7f || b" ~^:?*[\\".contains(&b);
    if name.bytes().any(forbidden) {
        return Err("contains a space, a control character or one of ~^:?*[\\");
    }
    for part in name.split('/') {
        if part.is_empty() {
            return Err("has an empty component");
        }
        if part.starts_with('.') {
            return Err("has a component that starts with a dot");
        }
        if part.ends_with(".lock") {
            return Err("has a component that ends with .lock");
        }
    }
    if name.split('/').count() < 3 {
        return Err("names no ref below its namespace");
    }
    Ok(())
}

text_form!(RefName, InvalidRefName);

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RefName({})", self.0)
    }
}

impl AsRef<str> for RefName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for RefName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gits_own_rules_hold() {
        for good in [
            "refs/heads/main",
            "refs/heads/a/b.c",
            "refs/tags/v1.0",
            "refs/heads/naïve",
        ] {
            assert!(RefName::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "main",
            "HEAD",
            "refs/heads",
            "refs/heads/",
            "refs/heads//x",
            "refs/heads/.x",
            "refs/heads/x.lock",
            "refs/heads/x.lock/y",
            "refs/heads/a..b",
            "refs/heads/a b",
            "refs/heads/a\0b",
            "refs/heads/a\nb",
            "refs/heads/a^{}",
            "refs/heads/x.",
            "refs/heads/@{1}",
            "refs/heads/a~1",
            "refs/heads/a:b",
            "refs/heads/a?",
            "refs/heads/a*",
            "refs/heads/a[",
            "refs/heads/a\\b",
            "refs/../heads/x",
        ] {
            assert!(RefName::parse(bad).is_err(), "{bad:?}");
        }
        assert!(RefName::parse(&format!("refs/heads/{}", "x".repeat(2000))).is_err());
    }

    #[test]
    fn only_an_exact_lower_case_id_names_a_nostr_event() {
        let id = [0xab; 32];
        let name = RefName::for_nostr_event(&id);
        assert_eq!(name.nostr_event_id(), Some(id));
        assert_eq!(
            RefName::parse("refs/nostr/123").unwrap().nostr_event_id(),
            None
        );
        let upper = format!("refs/nostr/{}", "AB".repeat(32));
        assert_eq!(RefName::parse(&upper).unwrap().nostr_event_id(), None);
        let deeper = format!("{name}/x");
        assert_eq!(RefName::parse(&deeper).unwrap().nostr_event_id(), None);
    }

    proptest! {
        #[test]
        fn a_valid_name_never_leaves_its_directory(text in "\\PC{0,60}") {
            if let Ok(name) = RefName::parse(&text) {
                prop_assert!(name.as_str().split('/').all(|part| part != ".." && part != "."));
            }
        }
    }
}
