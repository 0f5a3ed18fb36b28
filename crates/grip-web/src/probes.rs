//! Small responses that never wait: health, readiness, version, metrics.

use std::collections::BTreeMap;

use http::{Response, StatusCode, header};
use serde_json::json;

use crate::{
    body::Body,
    error::WebError,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
};

/// Damaged repositories that are named.
const NAMED_DAMAGED: usize = 5;

/// The process lives.
pub(crate) fn health(_: &RequestContext<'_>) -> HttpResult {
    Ok(uncached(respond::text(StatusCode::OK, "ok\n")))
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
    let (ready, status) = match missing.len() {
        0 => (true, StatusCode::OK),
        _ => (false, StatusCode::SERVICE_UNAVAILABLE),
    };
    // Parts that work, but not as they were meant to.
    let mut degraded: BTreeMap<_, _> = warning.map(|why| ("redis", why)).into_iter().collect();
    degraded.extend(damaged(cx).map(|why| ("repositories", why)));
    let answer = json!({ "ready": ready, "missing": missing, "degraded": degraded });
    respond::json(status, &answer).map(uncached)
}

/// The damaged repositories, the first few by name.
fn damaged(cx: &RequestContext<'_>) -> Option<String> {
    let damaged = cx.app.web.grasp.damaged();
    let named = damaged.iter().take(NAMED_DAMAGED);
    let named: Vec<_> = named.map(|(addr, why)| format!("{addr} ({why})")).collect();
    let more = damaged.len() - named.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!named.is_empty()).then(|| format!("damaged: {}{more}", named.join(", ")))
}

pub(crate) fn version(cx: &RequestContext<'_>) -> HttpResult {
    let build = &cx.app.web.build;
    let (version, commit) = (build.version, build.commit);
    let answer = json!({ "name": "gripfast", "version": version, "commit": commit });
    respond::json(StatusCode::OK, &answer).map(uncached)
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
    let response = respond::typed(StatusCode::OK, "image/svg+xml", svg);
    Ok(response.with(header::CACHE_CONTROL, "public, max-age=86400"))
}

/// Crawlers may read the pages of branches and tags. Git and API paths are of no use to them, and of
/// each commit there are many pages that cost a lot.
pub(crate) fn robots(_: &RequestContext<'_>) -> HttpResult {
    let costly = "blame grep archive compare commit history raw";
    let costly = costly
        .split(' ')
        .map(|page| format!("Disallow: /*/{page}/\n"));
    let git =
        "User-agent: *\nDisallow: /api/\nDisallow: /live/\nDisallow: /*/info/\nDisallow: /*/git-\n";
    let text = format!("{git}{}", costly.collect::<String>());
    Ok(respond::text(StatusCode::OK, text))
}

fn uncached(response: Response<Body>) -> Response<Body> {
    response.with(header::CACHE_CONTROL, "no-store")
}
