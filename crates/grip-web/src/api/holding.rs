//! Events and repositories that were taken out of service and are kept, and the orders to bring them back
//! or to destroy them. For the operator alone: nobody else sees that they were ever here.

use grip_grasp::LookError;
use grip_types::{Identifier, RepoAddr};
use http::StatusCode;
use serde_json::json;

use super::{
    json,
    types::{HeldBackList, HoldingPurged, HoldingRestored},
};
use crate::{
    admin::Admin,
    error::WebError,
    query::query_value,
    request_context::{HttpResult, RequestContext},
};

/// Lists what is kept, by repository; all of it where no `limit` is asked for.
pub(crate) async fn list(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let limit = query_value(cx.query(), "limit")
        .map(|_| super::limit(cx.query()))
        .transpose()?;
    let audit = admin.begin("holding ls", "all");
    let listed = cx.app.web.grasp.held_back().await;
    audit.end(if listed.is_ok() { "done" } else { "failed" });
    let listed = listed.map_err(unreadable)?;
    let mut listed = HeldBackList::from(listed);
    listed.held.truncate(limit.unwrap_or(usize::MAX));
    json(StatusCode::OK, &json!(listed))
}

/// Brings back what is kept of a repository, as far as the rules and its authors' requests let it.
pub(crate) async fn restore(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let addr = repository(cx)?;
    let audit = admin.begin("holding restore", &addr);
    let restored = cx.app.web.grasp.restore_held_back(&addr).await;
    audit.end(if restored.is_ok() { "done" } else { "failed" });
    let restored = restored.map_err(unreadable)?;
    json(StatusCode::OK, &HoldingRestored { restored })
}

/// Destroys what is kept of a repository.
pub(crate) async fn purge(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let addr = repository(cx)?;
    let audit = admin.begin("holding purge", &addr);
    let purged = cx.app.web.grasp.purge_held_back(&addr).await;
    audit.end(if purged.is_ok() { "done" } else { "failed" });
    let (events, archives) = purged.map_err(unreadable)?;
    json(StatusCode::OK, &HoldingPurged { events, archives })
}

fn repository(cx: &RequestContext<'_>) -> Result<RepoAddr, WebError> {
    let params = cx.params();
    let owner = RepoAddr::parse_npub(params[0]);
    let owner = owner.ok_or_else(|| WebError::Malformed("an npub names the owner".into()))?;
    let identifier =
        Identifier::from_encoded(params[1]).map_err(|e| WebError::Malformed(e.to_string()))?;
    Ok(RepoAddr::new(owner, identifier))
}

fn unreadable(error: LookError) -> WebError {
    WebError::internal("what is kept cannot be read or changed", error)
}
