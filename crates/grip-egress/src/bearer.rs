//! The one credential that a request may carry.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderValue;

/// Longest credential that is sent.
const MAX_BYTES: usize = 4096;

/// A token that says who asks. Nothing of it is ever printed.
#[derive(Clone)]
pub struct Bearer(HeaderValue);

/// Why a text is no credential; says nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is 1 to {MAX_BYTES} printable ASCII characters without spaces")]
pub struct InvalidBearer;

impl Bearer {
    pub fn new(token: &str) -> Result<Self, InvalidBearer> {
        Self::of("Bearer", token)
    }

    /// A proof by NIP-98, in base64.
    pub fn nostr(token: &str) -> Result<Self, InvalidBearer> {
        Self::of("Nostr", token)
    }

    /// A token as the password of a user, which is how git servers take it.
    pub fn basic(user: &str, token: &str) -> Result<Self, InvalidBearer> {
        Self::new(token)?;
        Self::of("Basic", &STANDARD.encode(format!("{user}:{token}")))
    }

    fn of(scheme: &str, token: &str) -> Result<Self, InvalidBearer> {
        let fits = (1..=MAX_BYTES).contains(&token.len());
        if !fits || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(InvalidBearer);
        }
        let value = HeaderValue::try_from(format!("{scheme} {token}"));
        let mut value = value.map_err(|_| InvalidBearer)?;
        // Keeps it out of the client's own debug output and out of header compression.
        value.set_sensitive(true);
        Ok(Self(value))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_credential_is_printed() {
        let bearer = Bearer::new("s3cret").unwrap();
        let text = format!("{bearer:?} {:?} {:#?}", bearer.header(), bearer.clone());
        assert!(!text.contains("s3cret"), "{text}");
        let basic = Bearer::basic("x-access-token", "s3cret").unwrap();
        assert_eq!(
            basic.header().as_bytes(),
            b"Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0"
        );
        assert!(!format!("{basic:?} {:?}", basic.header()).contains("czNjcmV0"));
        assert!(Bearer::basic("x-access-token", "two words").is_err());
    }

    #[test]
    fn what_cannot_be_a_token_is_refused_without_repeating_it() {
        for text in ["", "two words", "s3cret\n", "s3cret\r\nX: y", "ü", "a\0b"] {
            let error = Bearer::new(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
        assert!(Bearer::new(&"x".repeat(MAX_BYTES + 1)).is_err());
        assert!(Bearer::new(&"x".repeat(MAX_BYTES)).is_ok());
    }
}
