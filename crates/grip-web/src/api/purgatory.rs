//! Events that wait for their git data, and the orders to fetch it now or to drop the event.

use grip_grasp::LookError;
use grip_nostr::EventId;
use http::StatusCode;
use serde_json::json;

use super::{
    json,
    types::{EventBroughtForward, EventDropped, WaitingEvents},
};
use crate::{
    admin::Admin,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// Lists the events that wait.
pub(crate) async fn list(cx: &RequestContext<'_>) -> HttpResult {
    let waiting = cx.app.web.grasp.waiting(super::limit(cx.query())?).await;
    let waiting = waiting.map_err(unreadable)?;
    let total = total(cx.app);
    json(StatusCode::OK, &json!(WaitingEvents { total, waiting }))
}

/// How many events wait, listed or not.
pub(crate) fn total(app: &App) -> usize {
    let held = app.web.grasp.stats().purgatory;
    held.announcements + held.states + held.prs + held.wanted
}

/// Looks for the data of an event at once.
pub(crate) async fn retry(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let id = event_id(cx.params()[0])?;
    let audit = admin.begin("purgatory retry", id);
    if cx.app.web.sync.get().is_none() {
        audit.end("refused: sync is switched off");
        return Err(WebError::SyncOff);
    }
    let found = cx.app.web.grasp.retry_waiting(&id).await;
    if !audit
        .end_found(found, "brought forward")
        .map_err(unreadable)?
    {
        return Err(WebError::NothingWaits { what: "event" });
    }
    let answer = EventBroughtForward {
        event: id.to_hex(),
        brought_forward: true,
    };
    json(StatusCode::ACCEPTED, &answer)
}

/// Drops an event that waits.
pub(crate) async fn forget(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let id = event_id(cx.params()[0])?;
    let audit = admin.begin("purgatory drop", id);
    let found = cx.app.web.grasp.drop_waiting(&id).await;
    if !audit.end_found(found, "dropped").map_err(unreadable)? {
        return Err(WebError::NothingWaits { what: "event" });
    }
    let answer = EventDropped {
        event: id.to_hex(),
        dropped: true,
    };
    json(StatusCode::OK, &answer)
}

fn event_id(text: &str) -> Result<EventId, WebError> {
    EventId::from_hex(text).map_err(|_| WebError::Malformed("an event id has 64 hex digits".into()))
}

fn unreadable(error: LookError) -> WebError {
    WebError::internal("the purgatory cannot be read", error)
}
