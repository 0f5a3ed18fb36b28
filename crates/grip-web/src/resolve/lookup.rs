//! From a key to its manifest and its providers, as they go over the wire.
//!
//! A manifest is neither read again nor copied on its way out: its bytes are JSON, and they are
//! sent as they are, alone or with the facts of this answer around them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_resolve::{Key, ManifestId, Resolved, Source};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::Serialize;

use super::parameters;
use crate::{
    accept,
    app::App,
    body::Body,
    error::{ResolvingError, WebError},
    etag::ETag,
    respond,
};

/// The bytes of a manifest alone.
const MANIFEST: &str = "application/vnd.gripfast.manifest";
/// How long an answer may be kept that can never be another.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// `GET /resolve/<key>`. Boxed, so that no other request has to find room for it.
pub(crate) fn manifest<'a>(
    app: &'a Arc<App>,
    key: &'a str,
    request: &'a Request<Incoming>,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    Box::pin(answer(app, key, request.uri().query(), request.headers()))
}

async fn answer(
    app: &Arc<App>,
    key: &str,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<Response<Body>, WebError> {
    let wish = parameters::wish(query)?;
    let key = parameters::key(key)?;
    let resolver = &app.resolve()?.resolver;
    let found = resolver.resolve(&key, wish.ask).await;
    let found = found.map_err(ResolvingError::Failed)?;
    let etag = ETag::named(&found.id.to_string());
    let kept = match key {
        Key::Manifest(_) => HeaderValue::from_static(FOR_EVER),
        Key::Name(_) if wish.ask.fresh => respond::not_kept(),
        Key::Name(_) => kept(app, found.source)?,
    };
    let mut response = match etag.is_known(headers) {
        true => etag.unchanged(),
        false => {
            let is_raw = wish.is_raw || accept::wants(headers, MANIFEST);
            etag.put_on(whole(&found, is_raw)?)
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, kept);
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// How long caches on the way may give this answer: as long as our own does.
fn kept(app: &App, source: Source) -> Result<HeaderValue, WebError> {
    if source == Source::Stale {
        return Ok(respond::not_kept());
    }
    let seconds = app.resolve()?.resolver.hit_ttl().as_secs();
    let text = format!("public, max-age={seconds}");
    HeaderValue::from_str(&text).map_err(|e| WebError::internal("a number is no header", e))
}

/// What is told of a manifest beside itself.
#[derive(Serialize)]
struct Facts<'a> {
    id: ManifestId,
    name: &'a str,
    source: Source,
    hops: u32,
    asked: u32,
    took_ms: f64,
}

fn whole(found: &Resolved, is_raw: bool) -> Result<Response<Body>, WebError> {
    let manifest = found.manifest.bytes().clone();
    if is_raw {
        return Ok(respond::typed(StatusCode::OK, MANIFEST, manifest));
    }
    let facts = Facts {
        id: found.id,
        name: &found.manifest.name().to_string(),
        source: found.source,
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
pub(crate) fn providers<'a>(
    app: &'a Arc<App>,
    key: &'a str,
    query: Option<&'a str>,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    Box::pin(async move {
        let wish = parameters::providers(query)?;
        let key = parameters::key(key)?;
        let resolver = &app.resolve()?.resolver;
        let ranked = resolver
            .providers(&key, wish.limit, wish.region.as_deref(), wish.ask)
            .await
            .map_err(ResolvingError::Failed)?;
        let kept = match wish.ask.fresh {
            true => respond::not_kept(),
            false => kept(app, ranked.source)?,
        };
        let mut response = respond::json(StatusCode::OK, &ranked)?;
        response.headers_mut().insert(header::CACHE_CONTROL, kept);
        Ok(response)
    })
}
