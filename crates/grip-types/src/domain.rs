//! The host a request goes to, as politeness counts it.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

/// Longest name the domain name system knows.
const MAX_LEN: usize = 253;

/// A host name or address without a port: another port of the same machine
/// is the same neighbour, and a list of ports must not multiply what we ask of it.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Domain(Arc<str>);

/// Why a text is no host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host name or address")]
pub struct InvalidDomain(String);

impl Domain {
    /// The host of a URL; none where it has no host, or one too long to be real.
    ///
    /// The URL parser has made names lower case and addresses canonical, so that `0x7f.1` and
    /// `127.0.0.1` are one host. A dot at the end is the same name.
    pub fn of(url: &Url) -> Option<Self> {
        let host = url.host_str()?;
        let host = host.strip_suffix('.').unwrap_or(host);
        let fits = !host.is_empty() && host.len() <= MAX_LEN;
        fits.then(|| Self(host.into()))
    }

    /// Reads a bare host, as a setting names it.
    pub fn parse(text: &str) -> Result<Self, InvalidDomain> {
        let invalid = || InvalidDomain(text.chars().take(300).collect());
        let url = Url::parse(&format!("http://{}/", text.trim())).map_err(|_| invalid())?;
        let has_port = !text.trim().ends_with(']') && text.contains(':');
        let is_bare = !has_port
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        is_bare
            .then(|| Self::of(&url))
            .flatten()
            .ok_or_else(invalid)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Domain {
    type Error = InvalidDomain;

    fn try_from(text: String) -> Result<Self, InvalidDomain> {
        Self::parse(&text)
    }
}

impl From<Domain> for String {
    fn from(domain: Domain) -> Self {
        domain.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> String {
        Domain::of(&Url::parse(url).unwrap()).unwrap().to_string()
    }

    #[test]
    fn one_host_has_one_name_however_it_is_written() {
        assert_eq!(of("https://Git.Example.COM./x.git"), "git.example.com");
        assert_eq!(of("http://git.example.com:8080/"), "git.example.com");
        for url in ["http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/"] {
            assert_eq!(of(url), "127.0.0.1", "{url}");
        }
        assert_eq!(of("http://[0:0::1]:80/"), "[::1]");
        assert_eq!(of("http://user:secret@example.com/"), "example.com");
    }

    #[test]
    fn hosts_that_only_look_alike_are_apart() {
        assert_ne!(
            of("https://git.example.com.evil.net/"),
            of("https://git.example.com/")
        );
        assert_ne!(of("https://mygit.com/"), of("https://git.com/"));
    }

    #[test]
    fn a_setting_names_a_bare_host() {
        assert_eq!(
            Domain::parse(" GitHub.com ").unwrap().as_str(),
            "github.com"
        );
        for text in ["", "a:80", "u@a", "a/b", "a?b", "a b", "a#b"] {
            assert!(Domain::parse(text).is_err(), "{text:?}");
        }
        assert!(Domain::parse(&"a.".repeat(200)).is_err());
    }
}
