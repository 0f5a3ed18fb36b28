//! Constructors of responses.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{body::Body, error::WebError, request_context::HttpResult};

/// A page may do nothing but show itself with the style it carries.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; \
                           base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn text(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    typed(status, "text/plain; charset=utf-8", text)
}

/// A page: never framed, never running a script, whatever an event put into it.
pub(crate) fn page(status: StatusCode, html: String) -> Response<Body> {
    let mut response = typed(status, "text/html; charset=utf-8", html);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(PAGE_POLICY),
    );
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    response
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
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}
