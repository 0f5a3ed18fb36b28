//! Constructors of responses.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{body::Body, error::WebError, request_context::HttpResult};

/// Sets a header of a response.
pub(crate) trait WithHeader {
    fn with(self, name: HeaderName, value: &'static str) -> Self;
}

impl WithHeader for Response<Body> {
    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        let value = HeaderValue::from_static(value);
        self.headers_mut().insert(name, value);
        self
    }
}

/// A page may show itself with the style, the script and the pictures of this node, follow its live
/// parts, and send its forms here.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                           img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; \
                           frame-ancestors 'none'";

/// For what has another address when it changes.
pub(crate) const FOREVER: &str = "public, max-age=31536000, immutable";

/// For what is named by its content, but may one day no longer be served.
pub(crate) const LONG: &str = "public, max-age=86400";

pub(crate) fn text(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    typed(status, "text/plain; charset=utf-8", text)
}

/// A page: never framed, never running a script but ours, even if an event carries one.
pub(crate) fn page(status: StatusCode, html: String) -> Response<Body> {
    typed(status, "text/html; charset=utf-8", html)
        .with(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)
        .with(header::REFERRER_POLICY, "no-referrer")
        .with(header::CACHE_CONTROL, "no-cache")
        .with(header::VARY, "accept")
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> HttpResult {
    let body = serde_json::to_vec_pretty(value)
        .map_err(|e| WebError::internal("the answer cannot be written as JSON", e))?;
    Ok(typed(status, "application/json", Bytes::from(body)))
}

/// For answers that count only now.
pub(crate) fn not_kept() -> HeaderValue {
    HeaderValue::from_static("no-cache")
}

pub(crate) fn typed(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    bare(status, body)
        .with(header::CONTENT_TYPE, content_type)
        .with(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
}

/// A response without headers.
pub(crate) fn bare(status: StatusCode, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
}
