//! Recorded moves of the refs of archived repositories.

use grip_nostr::RepoAddr;
use http::StatusCode;

use super::json;
use crate::{
    error::WebError,
    query::{query_value, wrong},
    request_context::{HttpResult, RequestContext},
};

/// Lists the recorded moves of a repository, newest first.
pub(crate) async fn log(cx: &RequestContext<'_>) -> HttpResult {
    let [npub, identifier] = cx.params();
    let addr = RepoAddr::from_segments(npub, &format!("{identifier}.git"));
    let addr = addr.ok_or(WebError::BadRepositoryPath)?;
    let limit = super::limit(cx.query())?;
    let skip = match query_value(cx.query(), "skip") {
        Some(text) => text.parse().map_err(|_| wrong("skip", "it is a number"))?,
        None => 0,
    };
    let listed = cx.app.web.grasp.ref_moves(&addr, skip, limit).await;
    let listed = listed.map_err(|e| WebError::internal("the archive cannot be read", e))?;
    json(StatusCode::OK, &listed.ok_or(WebError::NoSuchRepository)?)
}
