//! Jobs that are due later, and the orders to run one now or to drop it.

use grip_db::DbError;
use grip_index::Reader;
use grip_queue::{Filter, JobFacts, State};
use http::{Method, StatusCode};

use super::{
    json, next_page,
    types::{FailureCauses, JobDropped, JobDueNow, Jobs, Revived},
};
use crate::{
    admin::Admin,
    error::WebError,
    limits::Class,
    query::{decoded, query_text},
    request_context::{HttpResult, RequestContext},
    restricted,
};

/// Lists jobs, page by page.
pub(crate) async fn list(cx: &RequestContext<'_>) -> HttpResult {
    let (limit, filter) = (super::limit(cx.query())?, filter(cx.query())?);
    let queue = &cx.app.web.queue;
    let mut jobs = queue.list(&filter, limit).await.map_err(unreadable)?;
    let next = next_page(&jobs, limit, |job| job.id);
    leave_out_restricted(cx, &mut jobs).await?;
    let mut kinds = queue.stats().await.map_err(unreadable)?;
    if !sees_all_jobs(cx).await? {
        kinds.retain(|kind| !restricted::JOB_KINDS.contains(&kind.kind.as_str()));
    }
    let answer = Jobs { next, kinds, jobs };
    json(StatusCode::OK, &answer)
}

/// Whether the number of jobs tells the client of no repository that it may not see.
async fn sees_all_jobs(cx: &RequestContext<'_>) -> Result<bool, WebError> {
    if restricted::reader(cx) == Reader::All {
        return Ok(true);
    }
    let Ok(index) = cx.app.index() else {
        return Ok(false);
    };
    let status = cx.app.samples.index_status(index).await;
    Ok(!status.map_err(unreadable)?.has_restricted())
}

/// Leaves out jobs that name a repository which the client may not see.
async fn leave_out_restricted(
    cx: &RequestContext<'_>,
    jobs: &mut Vec<JobFacts>,
) -> Result<(), WebError> {
    let reader = restricted::reader(cx);
    if !cx.is_operator() {
        // Named without its host, so that the index cannot tell who may see it.
        jobs.retain(|job| job.kind != "tag-event");
    }
    let Ok(index) = cx.app.index() else {
        // Another instance, or an earlier start, may have asked for restricted ones.
        if reader == Reader::Anybody {
            jobs.retain(|job| job.kind != "index-repo");
        }
        return Ok(());
    };
    let keys = jobs.iter().map(|job| job.key.clone()).collect();
    let hidden = index.unseen(keys, reader).await.map_err(unreadable)?;
    jobs.retain(|job| !hidden.contains(&job.key));
    Ok(())
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
    let mut found: Vec<_> = found.map_err(unreadable)?.into_iter().collect();
    leave_out_restricted(cx, &mut found).await?;
    let job = found.pop().ok_or(WebError::NoSuchJob)?;
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

/// What jobs failed for.
pub(crate) async fn causes(cx: &RequestContext<'_>, _: Admin) -> HttpResult {
    let kind = query_text(cx.query(), "kind")?;
    let causes = cx.app.web.queue.causes(kind.as_deref()).await;
    let causes = causes.map_err(unreadable)?;
    json(StatusCode::OK, &FailureCauses { causes })
}

/// Makes all jobs due now that failed for good, or for one cause.
pub(crate) async fn revive(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let kind = query_text(cx.query(), "kind")?;
    let cause = query_text(cx.query(), "cause")?;
    let named = [kind.as_deref(), cause.as_deref()].map(|text| text.unwrap_or("any"));
    let audit = admin.begin("queue revive", named.join(" "));
    let queue = &cx.app.web.queue;
    let revived = queue.revive(kind.as_deref(), cause.as_deref()).await;
    match &revived {
        Ok(count) => audit.end(format!("{count} due now")),
        Err(error) => audit.end(format!("failed: {error}")),
    }
    let revived = revived.map_err(unreadable)?;
    json(StatusCode::ACCEPTED, &Revived { revived })
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
    WebError::internal("the queue cannot be read", error)
}
