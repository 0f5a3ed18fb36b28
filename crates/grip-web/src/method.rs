//! Which methods a path answers to.

use http::Method;

use crate::error::WebError;

/// Refuses all but GET (and HEAD, which is GET without its body).
pub(crate) fn only_get(method: &Method) -> Result<(), WebError> {
    only(method, &READ, "GET, HEAD, OPTIONS")
}

/// Says whether the method changes nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    READ.contains(method)
}

/// Refuses all but GET and DELETE.
pub(crate) fn only_get_or_delete(method: &Method) -> Result<(), WebError> {
    let good = [Method::GET, Method::HEAD, Method::DELETE];
    only(method, &good, "GET, HEAD, DELETE, OPTIONS")
}

const READ: [Method; 2] = [Method::GET, Method::HEAD];

/// Refuses all but POST.
pub(crate) fn only_post(method: &Method) -> Result<(), WebError> {
    only(method, &[Method::POST], "POST, OPTIONS")
}

/// Refuses all but DELETE.
pub(crate) fn only_delete(method: &Method) -> Result<(), WebError> {
    only(method, &[Method::DELETE], "DELETE, OPTIONS")
}

fn only(method: &Method, good: &[Method], allow: &'static str) -> Result<(), WebError> {
    match good.contains(method) {
        true => Ok(()),
        false => Err(WebError::Method { allow }),
    }
}
