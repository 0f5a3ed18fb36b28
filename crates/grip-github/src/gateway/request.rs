//! Requests to the API.

use bytes::Bytes;
use grip_egress::Request;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{ACCEPT, CONTENT_TYPE, IF_NONE_MATCH},
};
use url::Url;

use crate::{options::MAX_PAGE_BYTES, quota::Resource, response::Etag};

const API_VERSION: (HeaderName, HeaderValue) = (
    HeaderName::from_static("x-github-api-version"),
    HeaderValue::from_static("2022-11-28"),
);
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/vnd.github+json");
pub(crate) const RAW: HeaderValue = HeaderValue::from_static("application/vnd.github.raw+json");

/// One request.
pub(crate) struct ApiRequest<'a> {
    pub(crate) url: Url,
    pub(crate) accept: HeaderValue,
    pub(crate) etag: Option<&'a Etag>,
    pub(crate) max_bytes: u64,
    /// What is posted; none where something is read.
    pub(crate) body: Option<Bytes>,
    /// The budget that pays, where the path does not tell.
    pub(crate) resource: Option<Resource>,
}

impl ApiRequest<'_> {
    /// A request for JSON.
    pub(crate) fn json(url: Url) -> Self {
        Self {
            url,
            accept: JSON,
            etag: None,
            max_bytes: MAX_PAGE_BYTES,
            body: None,
            resource: None,
        }
    }

    /// The request as it is sent to `url`.
    pub(super) fn request(&self, url: &Url) -> Request {
        let mut headers = HeaderMap::new();
        let (name, version) = API_VERSION;
        headers.insert(name, version);
        headers.insert(ACCEPT, self.accept.clone());
        if let Some(etag) = self.etag {
            headers.insert(IF_NONE_MATCH, etag.header());
        }
        let method = if self.body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Method::POST
        } else {
            Method::GET
        };
        Request {
            method,
            url: url.clone(),
            headers,
            body: self.body.clone().unwrap_or_default(),
            max_bytes: self.max_bytes,
        }
    }
}
