//! The event store, and the order to compact it.

use std::sync::Arc;

use grip_store::{CompactError, Compacted};
use http::StatusCode;

use super::{
    json,
    long_work::{Answer, LongWork, Run},
    types::CompactionReport,
};
use crate::{
    admin::Admin,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// The compaction under way, if there is one.
pub(crate) type Compacting = LongWork<(), Result<Compacted, Arc<CompactError>>>;

/// Compacts the event store; answers when that is done, or how far it is.
pub(crate) async fn compact(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let app = cx.app;
    let audit = admin.begin("events compact", "");
    let relay = app.web.relay.clone();
    let start = || {
        Run::start(&app.group, "relay-compact", |_| async move {
            relay.compact().await.map_err(Arc::new)
        })
    };
    let ended = match app.compacting.join(start).await {
        Answer::Ended(ended) => ended,
        Answer::UnderWay(_) => {
            audit.end("under way");
            return json(StatusCode::ACCEPTED, &so_far(app).await?);
        }
    };
    match ended.unwrap_or_else(|| Err(Arc::new(CompactError::Stopped))) {
        Ok(Compacted {
            bytes_before,
            bytes_after,
        }) => {
            audit.end("compacted");
            let answer = CompactionReport {
                compacted: true,
                bytes_before: Some(bytes_before),
                bytes_after: Some(bytes_after),
                ..CompactionReport::default()
            };
            json(StatusCode::OK, &answer)
        }
        Err(error) => {
            audit.end(format!("failed: {error}"));
            Err(WebError::internal(
                "the event store was not compacted",
                error,
            ))
        }
    }
}

/// How far a compaction is.
async fn so_far(app: &App) -> Result<CompactionReport, WebError> {
    let store = app.web.store.clone();
    let progress = app.blocking("relay-compact", move || store.compaction_progress());
    let unreadable = |e| WebError::internal("the event store cannot be read", e);
    let (copied, total) = progress.await?.map_err(unreadable)?;
    Ok(CompactionReport {
        copied_bytes: Some(copied),
        total_bytes: Some(total),
        ..CompactionReport::default()
    })
}
