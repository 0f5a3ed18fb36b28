//! Relay addresses in the one spelling that tells relays apart (G02-11).

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Longest address that is read.
const MAX_BYTES: usize = 2_048;

/// Endings of names that lead nowhere outside of one house (G02-52).
const INNER_NAMES: [&str; 8] = [
    "local",
    "localdomain",
    "localhost",
    "internal",
    "home.arpa",
    "onion",
    "test",
    "invalid",
];

/// The address of a relay: scheme, lower-case host, port unless it is the default, path unless it
/// is a lone `/`, query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RelayUrl(Arc<str>);

/// Why a text is no address of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no address of a relay such as wss://relay.example.com")]
pub struct InvalidRelayUrl;

impl RelayUrl {
    pub fn parse(text: &str) -> Result<Self, InvalidRelayUrl> {
        if text.len() > MAX_BYTES {
            return Err(InvalidRelayUrl);
        }
        let mut url = Url::parse(text.trim()).map_err(|_| InvalidRelayUrl)?;
        let is_relay = matches!(url.scheme(), "ws" | "wss") && url.has_host();
        if !is_relay || !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidRelayUrl);
        }
        url.set_fragment(None);
        let text = match (url.path(), url.query()) {
            ("/", None) => url.as_str().trim_end_matches('/'),
            _ => url.as_str(),
        };
        Ok(Self(text.into()))
    }

    /// Reads what an operator wrote, where `wss://` may be left out.
    pub fn parse_setting(text: &str) -> Result<Self, InvalidRelayUrl> {
        if text.contains("://") {
            Self::parse(text)
        } else {
            Self::parse(&format!("wss://{text}"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn url(&self) -> Url {
        Url::parse(&self.0).expect("what was parsed once parses again")
    }

    /// Says whether the host could be a public one, as far as its name tells.
    pub(crate) fn has_public_name(&self) -> bool {
        let url = self.url();
        let Some(Host::Domain(name)) = url.host() else {
            return true;
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let ends_with = |inner: &str| {
            let rest = name.strip_suffix(inner);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        name.contains('.') && !INNER_NAMES.into_iter().any(ends_with)
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RelayUrl {
    type Error = InvalidRelayUrl;

    fn try_from(text: String) -> Result<Self, InvalidRelayUrl> {
        Self::parse(&text)
    }
}

impl From<RelayUrl> for String {
    fn from(url: RelayUrl) -> Self {
        url.0.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g02_11_one_relay_has_one_spelling() {
        for text in [
            "wss://Relay.Example.com",
            "wss://relay.example.com/",
            "wss://relay.example.com:443",
            " wss://relay.example.com/#top",
        ] {
            let url = RelayUrl::parse(text).unwrap();
            assert_eq!(url.as_str(), "wss://relay.example.com", "{text}");
        }
        for text in [
            "ws://relay.example.com",
            "wss://relay.example.com:444",
            "wss://relay.example.com/a",
            "wss://relay.example.com/?a=1",
        ] {
            let url = RelayUrl::parse(text).unwrap();
            assert_ne!(url.as_str(), "wss://relay.example.com", "{text}");
            assert_eq!(RelayUrl::parse(url.as_str()), Ok(url));
        }
    }

    #[test]
    fn g02_52_credentials_and_other_schemes_are_no_relays() {
        for text in [
            "https://relay.example.com",
            "wss://user@relay.example.com",
            "wss://:secret@relay.example.com",
            "relay.example.com",
            "wss://",
            "",
        ] {
            assert!(RelayUrl::parse(text).is_err(), "{text}");
        }
        assert!(RelayUrl::parse(&format!("wss://a.example/{}", "x".repeat(2_048))).is_err());
        let setting = RelayUrl::parse_setting("relay.example.com").unwrap();
        assert_eq!(setting.as_str(), "wss://relay.example.com");
    }

    #[test]
    fn g02_52_names_of_one_house_are_not_public() {
        let is_public = |text: &str| RelayUrl::parse(text).unwrap().has_public_name();
        for text in [
            "ws://localhost",
            "ws://printer",
            "ws://printer.local",
            "ws://a.home.arpa.",
            "ws://abc.onion",
        ] {
            assert!(!is_public(text), "{text}");
        }
        assert!(is_public("wss://relay.example.com") && is_public("wss://notlocal.example"));
        // Addresses are judged by the egress guard.
        assert!(is_public("ws://127.0.0.1:7"));
    }
}
