//! What is fetched, and the order to fetch at once.

use std::sync::Arc;

use grip_types::Identifier;
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;

use super::uncached;
use crate::{
    Backend, HostBudget, SyncTotals, Tried, admin::Admin, app::App, body::Body, error::WebError,
    respond,
};

/// How much of each list is told where nobody asks for more, and the most that is told.
pub(super) const LISTED: usize = 100;
pub(super) const MOST_LISTED: usize = 1000;

#[derive(Serialize)]
struct Status {
    enabled: bool,
    queue_length: usize,
    queue: Vec<Queued>,
    #[serde(flatten)]
    totals: SyncTotals,
    throttle: Option<Backend>,
    hosts_total: usize,
    hosts: Vec<HostBudget>,
    tried: Vec<Tried>,
}

/// One identifier that waits for its next attempt.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Queued {
    pub(crate) identifier: Identifier,
    /// Unix milliseconds.
    pub(crate) next_attempt: i64,
    pub(crate) attempts: u32,
    pub(crate) in_progress: bool,
}

/// The identifiers that wait, by due time.
pub(crate) fn queue(app: &App, limit: usize) -> Vec<Queued> {
    let queue = app.grasp().sync_queue(limit).into_iter();
    queue
        .map(|(identifier, facts)| Queued {
            identifier,
            next_attempt: facts.next_attempt.get(),
            attempts: facts.attempt_count,
            in_progress: facts.in_progress,
        })
        .collect()
}

/// Tells the whole state of sync.
pub(crate) fn status(app: &Arc<App>, query: Option<&str>) -> Result<Response<Body>, WebError> {
    let limit = super::limit(query)?;
    let sync = app.sync();
    let mut hosts = sync.hosts();
    let hosts_total = hosts.len();
    hosts.truncate(limit);
    let status = Status {
        enabled: sync.get().is_some(),
        queue_length: app.grasp().sync_queue_len(),
        queue: queue(app, limit),
        totals: sync.get().map(|r| r.totals()).unwrap_or_default(),
        throttle: sync.backend(),
        hosts_total,
        hosts,
        tried: sync.get().map(|r| r.recent(limit)).unwrap_or_default(),
    };
    respond::json(StatusCode::OK, &status).map(uncached)
}

/// Brings the next attempt for an identifier forward to now.
pub(crate) async fn now(
    app: &Arc<App>,
    admin: Admin,
    encoded: &str,
) -> Result<Response<Body>, WebError> {
    let identifier =
        Identifier::from_encoded(encoded).map_err(|e| WebError::Malformed(e.to_string()))?;
    let audit = admin.begins("sync now", &identifier);
    if app.sync().get().is_none() {
        audit.ends("refused: sync is switched off");
        return Err(WebError::SyncOff);
    }
    if !app.grasp().sync_now(&identifier).await {
        audit.ends("nothing waits");
        return Err(WebError::NothingWaits { what: "repository" });
    }
    audit.ends("brought forward");
    let answer = json!({ "identifier": identifier, "brought_forward": true });
    respond::json(StatusCode::ACCEPTED, &answer).map(uncached)
}
