//! What waits for its git data, and the orders to look again or to forget.

use std::sync::Arc;

use grip_grasp::LookError;
use grip_nostr::EventId;
use http::{Response, StatusCode};
use serde_json::json;

use super::uncached;
use crate::{admin::Admin, app::App, body::Body, error::WebError, respond};

/// Lists what waits.
pub(crate) async fn list(app: &Arc<App>, query: Option<&str>) -> Result<Response<Body>, WebError> {
    let limit = super::limit(query)?;
    let waiting = app.grasp().waiting(limit).await.map_err(cannot_look)?;
    let answer = json!({
        "total": total(app),
        "waiting": waiting,
    });
    respond::json(StatusCode::OK, &answer).map(uncached)
}

/// How many events wait, listed or not.
pub(crate) fn total(app: &App) -> usize {
    let held = app.grasp().stats().purgatory;
    held.announcements + held.states + held.prs + held.wanted
}

/// Looks for the data of an event at once.
pub(crate) async fn retry(
    app: &Arc<App>,
    admin: Admin,
    id: &str,
) -> Result<Response<Body>, WebError> {
    let id = event_id(id)?;
    let audit = admin.begins("purgatory retry", id);
    if app.sync().get().is_none() {
        audit.ends("refused: sync is switched off");
        return Err(WebError::SyncOff);
    }
    match app.grasp().retry_waiting(&id).await {
        Ok(true) => audit.ends("brought forward"),
        Ok(false) => {
            audit.ends("nothing waits");
            return Err(WebError::NothingWaits { what: "event" });
        }
        Err(error) => {
            audit.ends(format!("failed: {error}"));
            return Err(cannot_look(error));
        }
    }
    let answer = json!({ "event": id, "brought_forward": true });
    respond::json(StatusCode::ACCEPTED, &answer).map(uncached)
}

/// Forgets an event that waits.
pub(crate) async fn forget(
    app: &Arc<App>,
    admin: Admin,
    id: &str,
) -> Result<Response<Body>, WebError> {
    let id = event_id(id)?;
    let audit = admin.begins("purgatory drop", id);
    match app.grasp().drop_waiting(&id).await {
        Ok(true) => audit.ends("dropped"),
        Ok(false) => {
            audit.ends("nothing waits");
            return Err(WebError::NothingWaits { what: "event" });
        }
        Err(error) => {
            audit.ends(format!("failed: {error}"));
            return Err(cannot_look(error));
        }
    }
    let answer = json!({ "event": id, "dropped": true });
    respond::json(StatusCode::OK, &answer).map(uncached)
}

fn event_id(text: &str) -> Result<EventId, WebError> {
    EventId::from_hex(text).map_err(|_| WebError::Malformed("an event id has 64 hex digits".into()))
}

fn cannot_look(error: LookError) -> WebError {
    WebError::internal("what waits cannot be looked at", error)
}
