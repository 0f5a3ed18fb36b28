//! The state of the resolver, its pins and the operator's orders to it.

use grip_resolve::Status;
use http::StatusCode;
use serde_json::{Value, json};

use super::json;
use crate::{
    error::WebError,
    query::query_value,
    request_context::{HttpResult, RequestContext},
};

/// Orders listed where nobody asks for more, and the most of them and of peers.
const LISTED: usize = 20;
const MOST: usize = 100;

/// `GET /api/v1/resolve`. The orders are shown to the operator alone.
pub(crate) async fn status(cx: &RequestContext<'_>) -> HttpResult {
    let limit = match query_value(cx.query(), "limit") {
        None => LISTED,
        Some(_) => super::limit(cx.query())?.min(MOST),
    };
    let resolve = cx.app.resolve()?;
    let unreadable = |e| WebError::internal("the pins cannot be read", e);
    let pins = resolve.admin.pins().await.map_err(unreadable)?;
    let audit = if cx.is_operator() {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        Some(resolve.admin.audit(limit).await.map_err(unreadable)?)
    } else {
        None
    };
    let mut answer = status_json(&resolve.resolver.status());
    answer["pins"] = json!(pins);
    answer["audit"] = json!(audit);
    json(StatusCode::OK, &answer)
}

fn status_json(status: &Status) -> Value {
    let (pipeline, publisher) = (&status.pipeline, &status.publisher);
    let network = status.network.as_ref().map(|network| {
        json!({
            "peer": network.peer.to_string(),
            "listening": network.listening,
            "external": network.external,
            "reachability": network.reachability.label(),
            "connected_peers": network.connected_peers,
            "known_peers": network.known_peers,
            "records": network.records,
            "provided_keys": network.provided_keys,
            "published_keys": network.published_keys,
            "max_published": network.max_published,
        })
    });
    let shut = status
        .breakers
        .iter()
        .take(MOST)
        .map(|(peer, state)| json!({ "peer": peer.to_string(), "state": state }));
    json!({
        "network": network,
        "pipeline": {
            "queue_depth": pipeline.queue_depth,
            "queue_capacity": pipeline.queue_capacity,
            "workers_busy": pipeline.workers_busy,
            "workers": pipeline.workers,
            "cached": pipeline.cached,
            "cached_bytes": pipeline.cached_bytes,
            "pinned": pipeline.pins,
        },
        "publisher": {
            "told": publisher.published,
            "due": publisher.due,
            "passes_total": publisher.scans_total,
        },
        "left_alone": shut.collect::<Vec<_>>(),
        "counters": status.counters,
    })
}
