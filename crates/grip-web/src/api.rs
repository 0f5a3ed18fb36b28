//! The JSON API.

mod explain;
pub(crate) mod github;
pub(crate) mod index;
pub(crate) mod purgatory;
pub(crate) mod queue;
pub(crate) mod resolve;
pub(crate) mod sync;
pub(crate) mod tasks;

use http::{HeaderValue, Response, header};

pub(crate) use self::explain::explain;
use crate::{body::Body, error::WebError, query::query_value};

/// How many entries of a list are wanted: `?limit=`, within what is told at most.
fn limit(query: Option<&str>) -> Result<usize, WebError> {
    let Some(text) = query_value(query, "limit") else {
        return Ok(sync::LISTED);
    };
    let limit: usize = text
        .parse()
        .map_err(|_| WebError::Malformed("limit is no number".into()))?;
    Ok(limit.min(sync::MOST_LISTED))
}

/// The state of this moment is not kept by anybody.
fn uncached(mut response: Response<Body>) -> Response<Body> {
    let no_cache = HeaderValue::from_static("no-cache");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_cache);
    response
}
