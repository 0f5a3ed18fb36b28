//! Responses and their entity tags.

use std::fmt;

use http::HeaderValue;

/// Longest tag that is kept.
const MAX_ETAG_BYTES: usize = 256;

/// A response to a request that may be for changes only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response<T> {
    Fresh(T),
    /// The same as when the tag was given; costs nothing of the budget.
    NotModified,
}

impl<T> Response<T> {
    pub fn fresh(self) -> Option<T> {
        match self {
            Self::Fresh(fresh) => Some(fresh),
            Self::NotModified => None,
        }
    }
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
