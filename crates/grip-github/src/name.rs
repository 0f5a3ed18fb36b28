//! Names of accounts and repositories, as they may stand in a path.

use std::{fmt, str::FromStr};

/// Longest name of an account or a repository.
const MAX_BYTES: usize = 100;

/// The name of a person or an organisation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Login(String);

/// `owner/name`. GitHub finds a repository whatever the case of its name; the case is kept here.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoName {
    owner: Login,
    name: String,
}

/// Whose repositories are meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    Org(Login),
    User(Login),
    /// All repositories of the host.
    Everything,
}

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name that GitHub gives")]
pub struct InvalidName(String);

fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_BYTES).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !matches!(text, "." | "..")
}

fn invalid(text: &str) -> InvalidName {
    InvalidName(text.chars().take(2 * MAX_BYTES + 1).collect())
}

impl Login {
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if is_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(invalid(text))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both are one account to GitHub.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl RepoName {
    pub fn new(owner: &str, name: &str) -> Result<Self, InvalidName> {
        Self::parse(&format!("{owner}/{name}"))
    }

    /// Reads `owner/name`.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        match text.split_once('/') {
            Some((owner, name)) if is_name(owner) && is_name(name) => Ok(Self {
                owner: Login(owner.to_owned()),
                name: name.to_owned(),
            }),
            _ => Err(invalid(text)),
        }
    }

    pub fn owner(&self) -> &Login {
        &self.owner
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both are one repository to GitHub.
    pub fn is_same(&self, other: &Self) -> bool {
        self.owner.is_same(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }

    /// One spelling for all that are the same.
    pub(crate) fn folded(&self) -> String {
        self.to_string().to_ascii_lowercase()
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RepoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for Login {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::parse(text)
    }
}

impl FromStr for RepoName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_another_path_are_refused() {
        for text in [
            "", "/", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/.", "a/b?c", "a/b#c", "a/%2e",
            "a/b c", "a/b\n", "a/b\0", "ä/b", "a\\b/c",
        ] {
            assert!(RepoName::parse(text).is_err(), "{text:?}");
        }
        assert!(RepoName::parse(&format!("a/{}", "x".repeat(MAX_BYTES + 1))).is_err());
        assert!(RepoName::new("a/b", "c").is_err());
        for text in ["a/b", "A-b_c/d.e-f_", "0/.github", "a/...", "a/b.git"] {
            assert_eq!(RepoName::parse(text).unwrap().to_string(), text);
        }
        assert!(Login::parse("a/b").is_err() && Login::parse("..").is_err());
    }

    #[test]
    fn case_makes_no_other_repository() {
        let one = RepoName::parse("Acme/One").unwrap();
        assert!(one.is_same(&"acme/ONE".parse().unwrap()));
        assert!(!one.is_same(&"acme/one2".parse().unwrap()));
        assert_ne!(one, "acme/one".parse().unwrap());
    }
}
