//! Documents by which hosts say who may ask them, read before the first request of a kind.

use http::{HeaderMap, StatusCode};
use url::Url;

use crate::{guard::Forbidden, options::Request};

/// What is found out about a host before it is asked, at every hop of a request.
///
/// The document is paid for at its host like the request itself, and bounded in time: a host without
/// one, or one that does not answer for it in time, is asked all the same.
pub trait Preflight: Send + Sync {
    /// The document to read before `url` is asked; none where enough is known. It is at the same
    /// origin.
    fn document(&self, url: &Url) -> Option<Request>;

    /// Notes what the host said; none where nothing came in time.
    fn note(&self, document: &Url, response: Option<&DocumentResponse>);

    /// Says why `url` must not be asked, by what is known.
    fn check(&self, url: &Url) -> Result<(), Forbidden>;
}

/// What a host says when it is asked for its document.
#[derive(Clone, Debug)]
pub struct DocumentResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The document; none where the status is no success, or it did not come whole.
    pub text: Option<Vec<u8>>,
}
