//! How the resolver stands, what is pinned and who ordered what.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_resolve::{PeerState, Status};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::uncached;
use crate::{app::App, body::Body, error::WebError, query::query_value, respond};

/// Orders told at most, and peers that are left alone.
const MOST: usize = 100;

/// `GET /api/v1/resolve`. Who ordered what is told to the operator alone.
pub(crate) fn status<'a>(
    app: &'a Arc<App>,
    query: Option<&'a str>,
    is_operator: bool,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    Box::pin(async move {
        let limit = match query_value(query, "limit") {
            None => 20,
            Some(_) => super::limit(query)?.min(MOST),
        };
        let resolve = app.resolve()?;
        let unreadable = |e| WebError::database("the pins cannot be read", e);
        let pins = resolve.admin.pins().await.map_err(unreadable)?;
        let audit = match is_operator {
            true => {
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                Some(resolve.admin.audit(limit).await.map_err(unreadable)?)
            }
            false => None,
        };
        let mut answer = told(&resolve.resolver.status());
        answer["pins"] = json!(pins);
        answer["audit"] = json!(audit);
        respond::json(StatusCode::OK, &answer).map(uncached)
    })
}

fn told(status: &Status) -> Value {
    let (pipeline, publisher) = (&status.pipeline, &status.publisher);
    let network = status.network.as_ref().map(|network| {
        json!({
            "peer": network.peer.to_string(),
            "listening": network.listening,
            "external": network.external,
            "connected_peers": network.connected_peers,
            "known_peers": network.known_peers,
            "records": network.records,
            "provided_keys": network.provided_keys,
        })
    });
    let shut = status.breakers.iter().take(MOST).map(|(peer, state)| {
        let state = match state {
            PeerState::Shut => "shut",
            PeerState::Probing => "probing",
        };
        json!({ "peer": peer.to_string(), "state": state })
    });
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
            "told": publisher.told,
            "due": publisher.due,
            "passes_total": publisher.passes_total,
        },
        "left_alone": shut.collect::<Vec<_>>(),
        "counters": status.counters,
    })
}
