//! The state of one moment, laid out in a directory for a backup to read.
//!
//! What is captured comes in the reverse of the order in which it became durable: first the journal of
//! what waits, then served events, then refs, then objects. Whatever one of them names, the next has: a
//! node that starts on it finishes what was under way, as after a crash.

use std::{io, path::Path};

use http::StatusCode;
use serde_json::json;

use super::{json, types::FrozenState};
use crate::{
    admin::Admin,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// Freezes the state of this moment; it takes the place of an earlier one.
pub(crate) async fn begin(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let audit = admin.begin("backup", "begin");
    let frozen = freeze(cx.app).await;
    if frozen.is_err() {
        // Half a state helps nobody, and the disk may be full of it.
        let repositories = cx.app.web.repositories.clone();
        let thawed = cx.app.blocking("backup", move || repositories.thaw()).await;
        if let Ok(Err(error)) = thawed {
            tracing::warn!(%error, "failed to clear up behind a backup");
        }
    }
    audit.end(if frozen.is_ok() { "frozen" } else { "failed" });
    json(StatusCode::OK, &frozen?)
}

/// Removes what was frozen.
pub(crate) async fn end(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let audit = admin.begin("backup", "end");
    let repositories = cx.app.web.repositories.clone();
    let thawed = cx
        .app
        .blocking("backup", move || repositories.thaw())
        .await?;
    audit.end(if thawed.is_ok() { "removed" } else { "failed" });
    thawed.map_err(failed)?;
    json(StatusCode::OK, &json!({ "removed": true }))
}

async fn freeze(app: &App) -> Result<FrozenState, WebError> {
    let (repositories, store) = (app.web.repositories.clone(), app.web.store.clone());
    let prepared = app.blocking("backup", move || {
        repositories.thaw()?;
        let events = store.stats().map_err(io::Error::other)?.used_bytes;
        let floor = repositories.options().min_free_bytes;
        if repositories.free_bytes()? < events.saturating_add(floor) {
            return Err(io::Error::other(
                "there is no room for a copy of the events",
            ));
        }
        // Beside the links, since it may be another disk than that of the data directory.
        let place = repositories.frozen_path();
        std::fs::create_dir_all(&place)?;
        Ok::<_, io::Error>((place, repositories.keep_objects()?))
    });
    let (place, kept) = prepared.await?.map_err(failed)?;
    let database = place.join("gripfast.sqlite");
    let db = app.web.queue.db();
    let copied = db.copy_to(&database).await;
    let has_database = copied.map_err(|e| WebError::database("the database was not copied", e))?;
    let (repositories, store) = (app.web.repositories.clone(), app.web.store.clone());
    let events = place.join("events");
    let copied = app.blocking("backup", {
        let events = events.clone();
        move || {
            store.copy_to(&events).map_err(io::Error::other)?;
            repositories.freeze(&kept)
        }
    });
    let frozen = copied.await?.map_err(failed)?;
    Ok(FrozenState {
        git: shown(&frozen.git),
        events: shown(&events),
        database: has_database.then(|| shown(&database)),
        links: frozen.files,
    })
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn failed(error: io::Error) -> WebError {
    WebError::internal(
        "the state of this moment was not laid out for a backup",
        error,
    )
}
