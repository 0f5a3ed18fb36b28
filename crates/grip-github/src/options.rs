//! Options of the gateway, and its tokens.

use std::{fmt, sync::Arc, time::Duration};

use grip_egress::{Bearer, Forbidden, InvalidBearer};
use url::Url;

/// Which GitHub is asked, by whom, and how carefully.
#[derive(Clone, Debug)]
pub struct Options {
    /// `https://api.github.com/` (the default), or `https://ghe.example/api/v3/`.
    pub api: Url,
    /// Each has a budget of its own where they belong to different accounts. Without any, calls
    /// are made without a token. Default: none.
    pub tokens: Vec<Token>,
    /// Calls of each budget that are left to others: programs with the same token, other
    /// instances of this one without a shared Redis, and the first calls after a restart. Never more than a tenth of
    /// the budget. Default: 50.
    pub reserve: u32,
    /// How long after the end of a spent budget's window it is used again. Default: 5 s.
    pub margin: Duration,
    /// How long a token is left alone that the host did not accept. Then a single call tries it
    /// again. Default: 1 h.
    pub set_aside: Duration,
    /// Pages of one list that are read: of an owner's repositories or a repository's tags.
    /// Default: 2,000.
    pub max_pages: u32,
    /// Pages of the list of all repositories that are read. Default: 1,000,000.
    pub max_host_pages: u32,
}

/// Longest page that is read.
pub(crate) const MAX_PAGE_BYTES: u64 = 8 << 20;

impl Default for Options {
    fn default() -> Self {
        let api = "https://api.github.com/".parse();
        Self {
            api: api.expect("because it is a URL"),
            tokens: Vec::new(),
            reserve: 50,
            margin: Duration::from_secs(5),
            set_aside: Duration::from_secs(60 * 60),
            max_pages: 2_000,
            max_host_pages: 1_000_000,
        }
    }
}

/// What a caller shows to be known. Nothing of it is ever printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    pub fn new(text: &str) -> Result<Self, InvalidBearer> {
        let text = text.trim();
        Bearer::new(text)?;
        Ok(Self(text.into()))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// For clone URLs; none for one that is too long to be sent so.
    pub(crate) fn clone_bearer(&self) -> Option<Bearer> {
        Bearer::basic("x-access-token", &self.0).ok()
    }

    pub(crate) fn bearer(&self) -> Bearer {
        Bearer::new(&self.0).expect("because it was one when it was made")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Why the gateway cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    #[error("the URL of the API must be of http or https, without user, query and fragment")]
    Api,
    #[error("the API cannot be asked")]
    Forbidden(#[from] Forbidden),
}

/// The URL of the API with a slash at its end, so that paths can be added.
pub(crate) fn base(api: &Url) -> Result<Url, SetupError> {
    let is_plain = matches!(api.scheme(), "http" | "https")
        && api.username().is_empty()
        && api.password().is_none()
        && api.query().is_none()
        && api.fragment().is_none();
    if !is_plain {
        return Err(SetupError::Api);
    }
    let mut base = api.clone();
    base.set_path(&format!("{}/", api.path().trim_end_matches('/')));
    Ok(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_token_is_printed() {
        let options = Options {
            tokens: vec![Token::new(" s3cret\n").unwrap()],
            ..Options::default()
        };
        let token = &options.tokens[0];
        let text = format!("{options:?} {options:#?} {token} {token:?}");
        assert!(!text.contains("s3cret"), "{text}");
        let error = Token::new("s3cret s3cret").unwrap_err();
        assert!(!format!("{error:?} {error}").contains("s3cret"));
    }

    #[test]
    fn the_api_is_a_plain_url_and_ends_with_a_slash() {
        for (api, expected) in [
            ("https://api.github.com", "https://api.github.com/"),
            ("https://ghe.example/api/v3", "https://ghe.example/api/v3/"),
            (
                "https://ghe.example/api/v3//",
                "https://ghe.example/api/v3/",
            ),
        ] {
            assert_eq!(base(&api.parse().unwrap()).unwrap().as_str(), expected);
        }
        for api in [
            "ftp://a.example/",
            "https://u@a.example/",
            "https://a.example/?q",
            "https://a.example/#f",
        ] {
            assert!(base(&api.parse().unwrap()).is_err(), "{api}");
        }
    }
}
