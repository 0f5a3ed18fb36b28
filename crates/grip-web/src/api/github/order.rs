//! What the operator may order.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_db::DbError;
use http::{Response, StatusCode};
use serde_json::json;

use super::{parameters, unreadable};
use crate::{
    admin::{Admin, Audit},
    api::uncached,
    app::App,
    body::Body,
    error::{WatchError, WebError},
    query::query_text,
    respond,
    route::GitHub,
};

/// Carries an order out.
pub(crate) fn order<'a>(
    app: &'a Arc<App>,
    admin: Admin,
    what: GitHub<'a>,
    query: Option<&'a str>,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    match what {
        GitHub::Retention => Box::pin(retention(app, admin, query)),
        GitHub::Reextract => Box::pin(reextract(app, admin)),
        GitHub::CloseGaps => Box::pin(close_gaps(app, admin, query)),
        _ => Box::pin(async { Err(WatchError::Nothing.into()) }),
    }
}

/// Lets go of what is older than it is kept; without `dry_run=false` it is only counted.
async fn retention(
    app: &Arc<App>,
    admin: Admin,
    query: Option<&str>,
) -> Result<Response<Body>, WebError> {
    let dry_run = parameters::flag(query, "dry_run")?.unwrap_or(true);
    let ingest = &app.watch()?.ingest;
    let subject = if dry_run { "dry run" } else { "for good" };
    let audit = admin.begins("github retention", subject);
    let retained = end(audit, ingest.retention(dry_run).await)?;
    let answer = json!({ "dry_run": dry_run, "gone": retained });
    respond::json(StatusCode::OK, &answer).map(uncached)
}

/// Has everything read again by the rules of today.
async fn reextract(app: &Arc<App>, admin: Admin) -> Result<Response<Body>, WebError> {
    let ingest = &app.watch()?.ingest;
    let audit = admin.begins("github reextract", "everything");
    end(audit, ingest.reextract().await)?;
    let answer = json!({ "began": true });
    respond::json(StatusCode::ACCEPTED, &answer).map(uncached)
}

/// Declares the holes between two moments filled.
async fn close_gaps(
    app: &Arc<App>,
    admin: Admin,
    query: Option<&str>,
) -> Result<Response<Body>, WebError> {
    let ingest = &app.watch()?.ingest;
    let missing = |name| {
        let why = format!("{name} is missing: a moment such as 2026-01-31T12:00:00Z");
        WebError::Malformed(why)
    };
    let from = parameters::moment(query, "from")?.ok_or_else(|| missing("from"))?;
    let to = parameters::moment(query, "to")?.ok_or_else(|| missing("to"))?;
    if to < from {
        let why = "to lies before from";
        return Err(WebError::Malformed(why.into()));
    }
    let by = query_text(query, "by")?.unwrap_or_else(|| "operator".into());
    if by.len() > 256 || by.contains(char::is_control) {
        let why = "by is a short name without control characters";
        return Err(WebError::Malformed(why.into()));
    }
    let audit = admin.begins("github gaps close", format!("{from} to {to}"));
    let closed = end(audit, ingest.close_gaps(from, to, &by).await)?;
    let answer = json!({ "closed": closed });
    respond::json(StatusCode::OK, &answer).map(uncached)
}

/// Records what came of an order.
fn end<T: std::fmt::Debug>(audit: Audit, done: Result<T, DbError>) -> Result<T, WebError> {
    match &done {
        Ok(done) => audit.ends(format!("done: {done:?}")),
        Err(error) => audit.ends(format!("failed: {error}")),
    }
    done.map_err(unreadable)
}
