//! Small answers that never wait: health, readiness, version, metrics.

use std::collections::BTreeMap;

use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{Build, Readiness, SyncHandle, body::Body, error::WebError, metrics::Metrics, respond};

/// The process lives.
pub(crate) fn health() -> Response<Body> {
    uncached(respond::text(StatusCode::OK, "ok\n"))
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    missing: BTreeMap<&'static str, String>,
    /// What works, but not as it was meant to.
    degraded: BTreeMap<&'static str, String>,
}

/// Whether requests are served, and if not, what is missing.
pub(crate) fn ready(readiness: &Readiness, sync: &SyncHandle) -> Result<Response<Body>, WebError> {
    let trouble = sync.backend().and_then(|backend| backend.trouble());
    let degraded = trouble.map(|why| ("redis", why)).into_iter().collect();
    let missing = readiness.missing();
    let ready = missing.is_empty();
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let answer = Ready {
        ready,
        missing,
        degraded,
    };
    respond::json(status, &answer).map(uncached)
}

#[derive(Serialize)]
struct Version<'a> {
    name: &'static str,
    version: &'a str,
    commit: Option<&'a str>,
}

pub(crate) fn version(build: &Build) -> Result<Response<Body>, WebError> {
    let version = Version {
        name: "gripfast",
        version: build.version,
        commit: build.commit,
    };
    respond::json(StatusCode::OK, &version).map(uncached)
}

pub(crate) fn metrics(metrics: &Metrics) -> Result<Response<Body>, WebError> {
    let text = metrics
        .render()
        .map_err(|e| WebError::internal("metrics cannot be written", e))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(uncached(respond::typed(StatusCode::OK, kind, text)))
}

pub(crate) fn icon() -> Response<Body> {
    let svg = include_str!("../templates/icon.svg");
    let mut response = respond::typed(StatusCode::OK, "image/svg+xml", svg);
    let day = HeaderValue::from_static("public, max-age=86400");
    response.headers_mut().insert(header::CACHE_CONTROL, day);
    response
}

/// Crawlers may read pages; git and API paths are of no use to them.
pub(crate) fn robots() -> Response<Body> {
    let text = "User-agent: *\nDisallow: /api/\nDisallow: /*/info/\nDisallow: /*/git-\n";
    respond::text(StatusCode::OK, text)
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}
