//! The state of sync, and the order to fetch at once.

use grip_types::Identifier;
use http::StatusCode;

use super::{
    json,
    types::{Queued, SearchBroughtForward, SyncStatus},
};
use crate::{
    admin::Admin,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// The identifiers that wait, by due time.
pub(crate) fn queue(app: &App, limit: usize) -> Vec<Queued> {
    let queue = app.web.grasp.sync_queue(limit).into_iter();
    queue
        .map(|(identifier, facts)| Queued {
            identifier,
            next_attempt: facts.next_attempt.get(),
            attempts: facts.attempt_count,
            in_progress: facts.in_progress,
        })
        .collect()
}

/// The whole state of sync.
pub(crate) fn status(cx: &RequestContext<'_>) -> HttpResult {
    let limit = super::limit(cx.query())?;
    let (app, sync) = (cx.app, &cx.app.web.sync);
    let mut hosts = sync.hosts();
    let hosts_total = hosts.len();
    hosts.truncate(limit);
    let mut relays = sync.relays();
    let relays_total = relays.len();
    relays.truncate(limit);
    let status = SyncStatus {
        enabled: sync.get().is_some(),
        queue_length: app.web.grasp.sync_queue_len(),
        queue: queue(app, limit),
        totals: sync.get().map(|r| r.totals()).unwrap_or_default(),
        throttle: sync.backend(),
        hosts_total,
        hosts,
        tried: sync.get().map(|r| r.recent(limit)).unwrap_or_default(),
        relays_total,
        relays,
        followed: sync.get().map(|r| r.followed()).unwrap_or_default(),
        replication: sync.get().map(|r| r.replication()).unwrap_or_default(),
    };
    json(StatusCode::OK, &status)
}

/// Brings the next attempt for an identifier forward to now.
pub(crate) async fn now(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let identifier =
        Identifier::from_encoded(cx.params()[0]).map_err(|e| WebError::Malformed(e.to_string()))?;
    let audit = admin.begin("sync now", &identifier);
    if cx.app.web.sync.get().is_none() {
        audit.end("refused: sync is switched off");
        return Err(WebError::SyncOff);
    }
    if !cx.app.web.grasp.sync_now(&identifier).await {
        audit.end("not found");
        return Err(WebError::NothingWaits { what: "repository" });
    }
    audit.end("brought forward");
    let answer = SearchBroughtForward {
        identifier,
        brought_forward: true,
    };
    json(StatusCode::ACCEPTED, &answer)
}
