//! Entity tags.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::{
    body::Body,
    respond::{self, WithHeader as _},
};

/// A tag of one form of an answer, with its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ETag(HeaderValue);

impl ETag {
    /// The tag of what all of `parts` together decide.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self::named(&Self::digest(parts))
    }

    /// The text of that tag.
    pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut digest = Sha256::new();
        for part in parts {
            // The length in front: no two lists of parts are one text.
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        faster_hex::hex_string(&digest.finalize()[..16])
    }

    /// A tag that somebody else has made of letters and digits.
    pub(crate) fn named(text: &str) -> Self {
        let quoted = HeaderValue::from_str(&format!("\"{text}\""));
        Self(quoted.unwrap_or_else(|_| HeaderValue::from_static("\"\"")))
    }

    /// Whether the client has this very answer: one of the tags it names is ours. A tag
    /// marked as weak counts, as it does for GET.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
            .map(|tag| tag.trim_ascii())
            .map(|tag| tag.strip_prefix(b"W/").unwrap_or(tag))
            .any(|tag| tag == b"*" || tag == self.0.as_bytes())
    }

    /// Puts the tag on an answer that must be asked for again each time.
    pub(crate) fn put_on(&self, mut response: Response<Body>) -> Response<Body> {
        response.headers_mut().insert(header::ETAG, self.0.clone());
        response.with(header::CACHE_CONTROL, "no-cache")
    }

    /// Puts the tag on an answer that never changes.
    pub(crate) fn put_for_good(&self, response: Response<Body>) -> Response<Body> {
        self.put_on(response)
            .with(header::CACHE_CONTROL, respond::LONG)
    }

    /// "You have it."
    pub(crate) fn unchanged(&self) -> Response<Body> {
        self.put_on(respond::bare(StatusCode::NOT_MODIFIED, Body::empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn knows(values: &[&str]) -> bool {
        ETag::named("abc").is_known(&testing::header("if-none-match", values))
    }

    #[test]
    fn a_tag_is_found_among_others() {
        for values in [
            &["\"abc\""][..],
            &["W/\"abc\""],
            &["\"x\" , \"abc\""],
            &["\"x\"", "\"abc\""],
            &["*"],
        ] {
            assert!(knows(values), "{values:?}");
        }
        for values in [&[][..], &["abc"], &["\"ABC\""], &["\"abcd\",\"\""]] {
            assert!(!knows(values), "{values:?}");
        }
    }

    #[test]
    fn parts_are_kept_apart() {
        let of = |parts: &[&str]| ETag::of(parts.iter().map(|part| part.as_bytes()));
        assert_eq!(of(&["a", "bc"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["abc"]), of(&["abc", ""]));
    }
}
