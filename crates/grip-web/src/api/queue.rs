//! Jobs that are due later, and the orders to run one now or to drop it.

use grip_db::DbError;
use grip_queue::{Filter, State};
use http::{Method, StatusCode};

use super::{
    json, next_page,
    types::{JobDropped, JobDueNow, Jobs},
};
use crate::{
    admin::Admin,
    error::WebError,
    limits::Class,
    query::{decoded, query_text},
    request_context::{HttpResult, RequestContext},
};

/// Lists jobs, page by page.
pub(crate) async fn list(cx: &RequestContext<'_>) -> HttpResult {
    let (limit, filter) = (super::limit(cx.query())?, filter(cx.query())?);
    let queue = &cx.app.web.queue;
    let jobs = queue.list(&filter, limit).await.map_err(unreadable)?;
    let answer = Jobs {
        next: next_page(&jobs, limit, |job| job.id),
        kinds: queue.stats().await.map_err(unreadable)?,
        jobs,
    };
    json(StatusCode::OK, &answer)
}

fn filter(query: Option<&str>) -> Result<Filter, WebError> {
    let wrong = |why: &str| WebError::Malformed(why.to_owned());
    let state = match query_text(query, "state")?.as_deref() {
        None => None,
        Some("due") => Some(State::Due),
        Some("waiting") => Some(State::Waiting),
        Some("leased") => Some(State::Leased),
        Some("dead") => Some(State::Dead),
        Some(_) => return Err(wrong("state is none of due, waiting, leased and dead")),
    };
    let after = query_text(query, "after")?
        .map(|text| text.parse().map_err(|_| wrong("after is no job's id")))
        .transpose()?;
    Ok(Filter {
        kind: query_text(query, "kind")?,
        state,
        after,
    })
}

/// One job: read by anybody, dropped by the operator.
pub(crate) async fn job(cx: &RequestContext<'_>) -> HttpResult {
    let time = cx.settings.timeouts.answer;
    if cx.head.method == Method::DELETE {
        let admin = cx.operator()?;
        cx.limited(Class::Api, time, forget(cx, admin)).await
    } else {
        cx.limited(Class::Api, time, find(cx)).await
    }
}

async fn find(cx: &RequestContext<'_>) -> HttpResult {
    let (kind, key) = name(cx)?;
    let found = cx.app.web.queue.find(&kind, &key).await;
    let job = found.map_err(unreadable)?.ok_or(WebError::NoSuchJob)?;
    json(StatusCode::OK, &job)
}

/// Makes a job due now.
pub(crate) async fn retry(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let (kind, key) = name(cx)?;
    let audit = admin.begin("queue retry", format!("{kind} {key}"));
    let found = cx.app.web.queue.retry(&kind, &key).await;
    if !audit.end_found(found, "due now").map_err(unreadable)? {
        return Err(WebError::NoSuchJob);
    }
    let answer = JobDueNow {
        kind,
        key,
        due_now: true,
    };
    json(StatusCode::ACCEPTED, &answer)
}

async fn forget(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let (kind, key) = name(cx)?;
    let audit = admin.begin("queue drop", format!("{kind} {key}"));
    let found = cx.app.web.queue.remove(&kind, &key).await;
    if !audit.end_found(found, "dropped").map_err(unreadable)? {
        return Err(WebError::NoSuchJob);
    }
    let answer = JobDropped {
        kind,
        key,
        dropped: true,
    };
    json(StatusCode::OK, &answer)
}

/// The kind and the key of the path.
fn name(cx: &RequestContext<'_>) -> Result<(String, String), WebError> {
    let [kind, key] = cx.params();
    Ok((decoded(kind, "the kind")?, decoded(key, "the key")?))
}

fn unreadable(error: DbError) -> WebError {
    WebError::database("the queue cannot be read", error)
}
