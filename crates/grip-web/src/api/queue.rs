//! What is due later, and the orders to try again or to forget.

use std::sync::Arc;

use grip_db::DbError;
use grip_queue::{Filter, JobFacts, KindStats, State};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;

use super::uncached;
use crate::{
    admin::Admin,
    app::App,
    body::Body,
    error::WebError,
    query::{decoded, query_text},
    respond,
};

#[derive(Serialize)]
struct Answer {
    kinds: Vec<KindStats>,
    jobs: Vec<Shown>,
    /// What `after` must say for the jobs that follow; none on the last page.
    next: Option<i64>,
}

/// A job without its payload, which is nobody's business.
#[derive(Serialize)]
struct Shown {
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

impl From<JobFacts> for Shown {
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
pub(crate) async fn list(app: &Arc<App>, query: Option<&str>) -> Result<Response<Body>, WebError> {
    let limit = super::limit(query)?;
    let filter = filter(query)?;
    let jobs = app.queue().list(&filter, limit).await;
    let jobs = jobs.map_err(cannot_look)?;
    let is_full = limit > 0 && jobs.len() == limit;
    let answer = Answer {
        next: jobs.last().filter(|_| is_full).map(|job| job.id),
        kinds: app.queue().stats().await.map_err(cannot_look)?,
        jobs: jobs.into_iter().map(Shown::from).collect(),
    };
    respond::json(StatusCode::OK, &answer).map(uncached)
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

/// Tells of one job.
pub(crate) async fn find(
    app: &Arc<App>,
    kind: &str,
    key: &str,
) -> Result<Response<Body>, WebError> {
    let (kind, key) = (decoded(kind, "the kind")?, decoded(key, "the key")?);
    let found = app.queue().find(&kind, &key).await.map_err(cannot_look)?;
    let job = Shown::from(found.ok_or(WebError::NoSuchJob)?);
    respond::json(StatusCode::OK, &job).map(uncached)
}

/// Makes a job due now.
pub(crate) async fn retry(
    app: &Arc<App>,
    admin: Admin,
    kind: &str,
    key: &str,
) -> Result<Response<Body>, WebError> {
    let (kind, key) = (decoded(kind, "the kind")?, decoded(key, "the key")?);
    let audit = admin.begins("queue retry", format!("{kind} {key}"));
    match app.queue().retry(&kind, &key).await {
        Ok(true) => audit.ends("due now"),
        Ok(false) => {
            audit.ends("no such job");
            return Err(WebError::NoSuchJob);
        }
        Err(error) => {
            audit.ends(format!("failed: {error}"));
            return Err(cannot_look(error));
        }
    }
    let answer = json!({ "kind": kind, "key": key, "due_now": true });
    respond::json(StatusCode::ACCEPTED, &answer).map(uncached)
}

/// Forgets a job.
pub(crate) async fn forget(
    app: &Arc<App>,
    admin: Admin,
    kind: &str,
    key: &str,
) -> Result<Response<Body>, WebError> {
    let (kind, key) = (decoded(kind, "the kind")?, decoded(key, "the key")?);
    let audit = admin.begins("queue drop", format!("{kind} {key}"));
    match app.queue().remove(&kind, &key).await {
        Ok(true) => audit.ends("dropped"),
        Ok(false) => {
            audit.ends("no such job");
            return Err(WebError::NoSuchJob);
        }
        Err(error) => {
            audit.ends(format!("failed: {error}"));
            return Err(cannot_look(error));
        }
    }
    let answer = json!({ "kind": kind, "key": key, "dropped": true });
    respond::json(StatusCode::OK, &answer).map(uncached)
}

fn cannot_look(error: DbError) -> WebError {
    WebError::database("the queue cannot be looked at", error)
}
