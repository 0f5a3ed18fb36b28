//! Jobs that are due later, and the orders to run one now or to drop it.

use grip_db::DbError;
use grip_queue::{Filter, JobFacts, KindStats, State};
use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::json;

use super::{json, next_page};
use crate::{
    admin::Admin,
    error::WebError,
    limits::Class,
    query::{decoded, query_text},
    request_context::{HttpResult, RequestContext},
};

#[derive(Serialize)]
struct Answer {
    kinds: Vec<KindStats>,
    jobs: Vec<Job>,
    /// The value of `after` for the jobs that follow; none on the last page.
    next: Option<i64>,
}

/// A job without its payload, which is nobody's business.
#[derive(Serialize)]
struct Job {
    id: i64,
    kind: String,
    key: String,
    state: State,
    /// Unix milliseconds, as the others: when it is due, or when its lease ends.
    due: Option<i64>,
    period_ms: Option<i64>,
    attempts: i64,
    limited: i64,
    lost: i64,
    holder: Option<String>,
    last_error: Option<String>,
    enqueued: i64,
    dead: Option<i64>,
}

impl From<JobFacts> for Job {
    fn from(facts: JobFacts) -> Self {
        Self {
            id: facts.id,
            kind: facts.kind,
            key: facts.key,
            state: facts.state,
            due: facts.due_ms,
            period_ms: facts.period_ms,
            attempts: facts.attempts,
            limited: facts.limited,
            lost: facts.lost,
            holder: facts.holder,
            last_error: facts.last_error,
            enqueued: facts.enqueued_ms,
            dead: facts.dead_ms,
        }
    }
}

/// Lists jobs, page by page.
pub(crate) async fn list(cx: &RequestContext<'_>) -> HttpResult {
    let (limit, filter) = (super::limit(cx.query())?, filter(cx.query())?);
    let queue = &cx.app.web.queue;
    let jobs = queue.list(&filter, limit).await.map_err(unreadable)?;
    let answer = Answer {
        next: next_page(&jobs, limit, |job| job.id),
        kinds: queue.stats().await.map_err(unreadable)?,
        jobs: jobs.into_iter().map(Job::from).collect(),
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
    json(StatusCode::OK, &Job::from(job))
}

/// Makes a job due now.
pub(crate) async fn retry(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let (kind, key) = name(cx)?;
    let audit = admin.begin("queue retry", format!("{kind} {key}"));
    let found = cx.app.web.queue.retry(&kind, &key).await;
    if !audit.end_found(found, "due now").map_err(unreadable)? {
        return Err(WebError::NoSuchJob);
    }
    let answer = json!({ "kind": kind, "key": key, "due_now": true });
    json(StatusCode::ACCEPTED, &answer)
}

async fn forget(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let (kind, key) = name(cx)?;
    let audit = admin.begin("queue drop", format!("{kind} {key}"));
    let found = cx.app.web.queue.remove(&kind, &key).await;
    if !audit.end_found(found, "dropped").map_err(unreadable)? {
        return Err(WebError::NoSuchJob);
    }
    let answer = json!({ "kind": kind, "key": key, "dropped": true });
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
