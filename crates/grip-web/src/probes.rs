//! Small responses that never wait: health, readiness, version, metrics.

use std::collections::BTreeMap;

use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{
    body::Body,
    error::WebError,
    request_context::{HttpResult, RequestContext},
    respond,
};

/// The process lives.
pub(crate) fn health(_: &RequestContext<'_>) -> HttpResult {
    Ok(uncached(respond::text(StatusCode::OK, "ok\n")))
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    missing: BTreeMap<&'static str, String>,
    /// Parts that work, but not as they were meant to.
    degraded: BTreeMap<&'static str, String>,
}

/// Whether requests are served, and if not, what is missing.
pub(crate) fn ready(cx: &RequestContext<'_>) -> HttpResult {
    let web = &cx.app.web;
    // The stop is known here before the accept loop had its turn to say so.
    if cx.app.is_draining() {
        web.readiness.drain();
    }
    let warning = web.sync.backend().and_then(|backend| backend.warning());
    let missing = web.readiness.missing();
    let answer = Ready {
        ready: missing.is_empty(),
        missing,
        degraded: warning.map(|why| ("redis", why)).into_iter().collect(),
    };
    let status = if answer.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    respond::json(status, &answer).map(uncached)
}

#[derive(Serialize)]
struct Version<'a> {
    name: &'static str,
    version: &'a str,
    commit: Option<&'a str>,
}

pub(crate) fn version(cx: &RequestContext<'_>) -> HttpResult {
    let build = &cx.app.web.build;
    let version = Version {
        name: "gripfast",
        version: build.version,
        commit: build.commit,
    };
    respond::json(StatusCode::OK, &version).map(uncached)
}

/// The metrics as they are; what must be read from the database is read for the next scrape.
pub(crate) fn metrics(cx: &RequestContext<'_>) -> HttpResult {
    if !cx.settings.metrics {
        return Err(WebError::NoSuchPage);
    }
    cx.app.samples.scraped();
    let text = cx.app.metrics.render();
    let text = text.map_err(|e| WebError::internal("metrics cannot be written", e))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(uncached(respond::typed(StatusCode::OK, kind, text)))
}

pub(crate) fn icon(_: &RequestContext<'_>) -> HttpResult {
    let svg = include_str!("../templates/icon.svg");
    let mut response = respond::typed(StatusCode::OK, "image/svg+xml", svg);
    let day = HeaderValue::from_static("public, max-age=86400");
    response.headers_mut().insert(header::CACHE_CONTROL, day);
    Ok(response)
}

/// Crawlers may read pages; git and API paths are of no use to them.
pub(crate) fn robots(_: &RequestContext<'_>) -> HttpResult {
    let text = "User-agent: *\nDisallow: /api/\nDisallow: /*/info/\nDisallow: /*/git-\n";
    Ok(respond::text(StatusCode::OK, text))
}

fn uncached(mut response: Response<Body>) -> Response<Body> {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}
