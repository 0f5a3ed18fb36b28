//! The headers that let pages of any origin use this node (G01-59 to G01-61).

use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::{body::Body, respond};

const HEADERS: [(&str, &str); 5] = [
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET, POST, OPTIONS, HEAD"),
    (
        "access-control-allow-headers",
        "Content-Type, Authorization, Git-Protocol, Accept, Content-Encoding, If-None-Match, \
         X-Requested-With, X-Git-Request-Id, Idempotency-Key",
    ),
    ("access-control-expose-headers", "*"),
    ("access-control-max-age", "86400"),
];

/// Adds the headers to an answer, where it does not say otherwise; every answer goes through here.
pub(crate) fn allow(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
}

/// The answer to `OPTIONS` on any path, known or not.
pub(crate) fn preflight() -> Response<Body> {
    respond::bare(StatusCode::NO_CONTENT, Body::empty())
}
