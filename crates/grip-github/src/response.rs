//! Responses and their entity tags.

use std::fmt;

use bytes::Bytes;
use http::HeaderValue;
use url::Url;

/// Longest tag that is kept.
const MAX_ETAG_BYTES: usize = 256;

/// A response of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    Fresh(Fresh),
    /// The same as when the tag was given; costs nothing of the budget.
    NotModified,
}

/// A whole response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    pub body: Bytes,
    /// Its tag, to ask later for changes only.
    pub etag: Option<Etag>,
    /// The next page of a list; of the same origin and other than the one that was asked for.
    pub next: Option<Url>,
}

/// The entity tag of a response.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Etag(String);

impl Etag {
    /// Reads a tag; none where it could not be sent back.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=MAX_ETAG_BYTES).contains(&text.len());
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        (fits && is_plain).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn header(&self) -> HeaderValue {
        HeaderValue::from_str(&self.0).expect("because it is printable ASCII")
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
