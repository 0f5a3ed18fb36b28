//! The JSON API.

use std::sync::Arc;

use grip_grasp::Status;
use http::{HeaderValue, Response, StatusCode, header};

use crate::{app::App, body::Body, error::WebError, respond};

/// Tells why an event, a repository or a ref is served, held or refused.
pub(crate) async fn explain(app: &Arc<App>, subject: &str) -> Result<Response<Body>, WebError> {
    let explanation = app
        .grasp()
        .explain(subject)
        .await
        .map_err(|e| WebError::internal("an explanation cannot be given", e))?;
    let status = match explanation.status {
        Status::Unknown => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    };
    let mut response = respond::json(status, &explanation)?;
    let no_cache = HeaderValue::from_static("no-cache");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_cache);
    Ok(response)
}
