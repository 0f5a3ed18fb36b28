//! The event store, and the order to compact it.

use std::time::Duration;

use grip_store::{CompactError, Compacted};
use http::StatusCode;
use tokio::time::timeout;

use super::{json, types::CompactionReport};
use crate::{
    admin::Admin,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// How long the answer waits for the end; a large store takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Compacts the event store; answers when that is done, or that it goes on.
pub(crate) async fn compact(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let audit = admin.begin("events compact", "");
    let relay = cx.app.web.relay.clone();
    let compacting = cx
        .app
        .group
        .spawn("relay-compact", async move { relay.compact().await });
    let Ok(compacted) = timeout(PATIENCE, compacting).await else {
        audit.end("under way");
        let answer = CompactionReport {
            compacted: false,
            bytes_before: None,
            bytes_after: None,
        };
        return json(StatusCode::ACCEPTED, &answer);
    };
    match compacted.unwrap_or(Err(CompactError::Stopped)) {
        Ok(Compacted {
            bytes_before,
            bytes_after,
        }) => {
            audit.end("compacted");
            let answer = CompactionReport {
                compacted: true,
                bytes_before: Some(bytes_before),
                bytes_after: Some(bytes_after),
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
