//! Manifests and providers of a key.
//!
//! A manifest is neither read again nor copied on its way out: its bytes are JSON, and they are
//! sent as they are, alone or with the facts of this answer around them.

use bytes::Bytes;
use grip_resolve::{Key, Resolved, Source};
use http::{HeaderValue, StatusCode, header};

use super::parameters;
use crate::{
    api_types::ResolvedFacts,
    app::App,
    body::Body,
    error::{ResolvingError, WebError},
    etag::ETag,
    negotiation,
    request_context::{HttpResult, RequestContext},
    respond,
};

/// The bytes of a manifest alone.
const MANIFEST: &str = "application/vnd.gripfast.manifest";
/// How long an answer may be kept that can never be another.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// `GET /resolve/<key>`.
pub(crate) async fn manifest(cx: &RequestContext<'_>) -> HttpResult {
    let wanted = parameters::manifest(cx.query())?;
    let key = parameters::key(cx.params()[0])?;
    let resolver = &cx.app.resolve()?.resolver;
    let found = resolver.resolve(&key, wanted.ask).await;
    let found = found.map_err(ResolvingError::Failed)?;
    let etag = ETag::named(&found.id.to_string());
    let caching = match key {
        Key::Manifest(_) => HeaderValue::from_static(FOR_EVER),
        Key::Name(_) if wanted.ask.fresh => respond::not_kept(),
        Key::Name(_) => caching(cx.app, found.source)?,
    };
    let mut response = if etag.is_known(cx.headers()) {
        etag.unchanged()
    } else {
        let is_raw = wanted.is_raw || negotiation::wants(cx.headers(), MANIFEST);
        etag.put_on(whole(&found, is_raw)?)
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, caching);
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// How long caches on the way may give this answer: as long as our own does.
fn caching(app: &App, source: Source) -> Result<HeaderValue, WebError> {
    if source == Source::Stale {
        return Ok(respond::not_kept());
    }
    let seconds = app.resolve()?.resolver.hit_ttl().as_secs();
    let text = format!("public, max-age={seconds}");
    HeaderValue::from_str(&text).map_err(|e| WebError::internal("a number is no header", e))
}

fn whole(found: &Resolved, is_raw: bool) -> HttpResult {
    let manifest = found.manifest.bytes().clone();
    if is_raw {
        return Ok(respond::typed(StatusCode::OK, MANIFEST, manifest));
    }
    let facts = ResolvedFacts {
        id: found.id.to_string(),
        name: found.manifest.name().to_string(),
        source: Some(found.source),
        hops: found.hops,
        asked: found.asked,
        took_ms: found.took.as_micros() as f64 / 1000.0,
    };
    let mut head = serde_json::to_vec(&facts)
        .map_err(|e| WebError::internal("an answer cannot be written as JSON", e))?;
    // Its closing brace comes after the manifest.
    head.pop();
    head.extend_from_slice(b",\"manifest\":");
    let body = Body::pieces([head.into(), manifest, Bytes::from_static(b"}\n")]);
    Ok(respond::typed(StatusCode::OK, "application/json", body))
}

/// `GET /providers/<key>`.
pub(crate) async fn providers(cx: &RequestContext<'_>) -> HttpResult {
    let wanted = parameters::providers(cx.query())?;
    let key = parameters::key(cx.params()[0])?;
    let resolver = &cx.app.resolve()?.resolver;
    let ranked = resolver
        .providers(&key, wanted.limit, wanted.region.as_deref(), wanted.ask)
        .await
        .map_err(ResolvingError::Failed)?;
    let caching = if wanted.ask.fresh {
        respond::not_kept()
    } else {
        caching(cx.app, ranked.source)?
    };
    let mut response = respond::json(StatusCode::OK, &ranked)?;
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, caching);
    Ok(response)
}
