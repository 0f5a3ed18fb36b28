//! How the index is, why a tag is in it or not, and the order to look again.

use std::sync::Arc;

use grip_db::DbError;
use grip_index::{RepoFacts, SourceStatus, TagFacts};
use grip_queue::{JobFacts, State};
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
    route::Route,
};

/// Tags of one answer: each that claims a version is looked up.
const MOST_TAGS: usize = 200;

/// A source with the work on it.
#[derive(Serialize)]
pub(crate) struct SourceLine {
    #[serde(flatten)]
    pub(crate) status: SourceStatus,
    #[serde(flatten)]
    pub(crate) work: Work,
}

/// When something is looked at next, and what went wrong the last time.
#[derive(Default, Serialize)]
pub(crate) struct Work {
    pub(crate) state: Option<State>,
    pub(crate) next_due_ms: Option<i64>,
    pub(crate) attempts: i64,
    pub(crate) last_error: Option<String>,
}

impl Work {
    fn of(job: Option<JobFacts>) -> Self {
        job.map_or_else(Self::default, |job| Self {
            state: Some(job.state),
            next_due_ms: job.due_ms,
            attempts: job.attempts,
            last_error: job.last_error,
        })
    }
}

/// Answers all that is only read.
pub(crate) async fn tell(
    app: &Arc<App>,
    route: &Route<'_>,
    query: Option<&str>,
) -> Result<Response<Body>, WebError> {
    match route {
        Route::IndexRepos => repos(app, query).await,
        Route::IndexRepo(name) => repo(app, name, query).await,
        _ => status(app).await,
    }
}

/// The sources by name, with the work on each.
pub(crate) async fn sources(
    app: &App,
    sources: Vec<SourceStatus>,
) -> Result<Vec<SourceLine>, WebError> {
    let mut lines = Vec::new();
    for status in sources {
        let job = find(app, list_kinds(app), &status.name).await?;
        let work = Work::of(job);
        lines.push(SourceLine { status, work });
    }
    Ok(lines)
}

async fn status(app: &Arc<App>) -> Result<Response<Body>, WebError> {
    let status = app.sampled().index_status(app.index()?).await;
    let mut status = status.map_err(unreadable)?;
    let named = sources(app, std::mem::take(&mut status.sources)).await?;
    let mut answer = serde_json::to_value(&status)
        .map_err(|e| WebError::internal("the status cannot be written", e))?;
    answer["sources"] = json!(named);
    respond::json(StatusCode::OK, &answer).map(uncached)
}

async fn repos(app: &Arc<App>, query: Option<&str>) -> Result<Response<Body>, WebError> {
    let limit = super::limit(query)?;
    let after = query_text(query, "after")?.unwrap_or_default();
    let repos: Vec<RepoFacts> = app
        .index()?
        .repos(&after, limit)
        .await
        .map_err(unreadable)?;
    let is_full = limit > 0 && repos.len() == limit;
    let next = repos.last().filter(|_| is_full).map(|repo| &repo.name);
    let answer = json!({ "repos": repos, "next": next });
    respond::json(StatusCode::OK, &answer).map(uncached)
}

/// A tag, and whether it is in the feed.
#[derive(Serialize)]
struct TagLine {
    #[serde(flatten)]
    tag: TagFacts,
    in_feed: bool,
}

async fn repo(app: &Arc<App>, name: &str, query: Option<&str>) -> Result<Response<Body>, WebError> {
    let name = full(app, decoded(name, "the repository")?);
    let limit = super::limit(query)?.min(MOST_TAGS);
    let after = query_text(query, "after")?.unwrap_or_default();
    let index = app.index()?;
    let job = find(app, repo_kinds(app), &name).await?;
    let tags = index.tags(&name, &after, limit).await.map_err(unreadable)?;
    let facts = index.repo(&name).await.map_err(unreadable)?;
    if facts.is_none() && job.is_none() {
        return Err(WebError::NotIndexed);
    }
    let is_full = limit > 0 && tags.len() == limit;
    let next = tags.last().filter(|_| is_full).map(|tag| tag.name.clone());
    let mut lines = Vec::new();
    for tag in tags {
        lines.push(tag_line(app, &name, tag).await?);
    }
    let answer = json!({
        "name": name,
        "facts": facts,
        "work": Work::of(job),
        "tags": lines,
        "next": next,
    });
    respond::json(StatusCode::OK, &answer).map(uncached)
}

/// Says of a tag that claims a version whether the feed shows it, or whose it shows instead.
async fn tag_line(app: &App, repo: &str, mut tag: TagFacts) -> Result<TagLine, WebError> {
    let (Some(path), Some(version)) = (&tag.path, &tag.version) else {
        let why = "its name is no version of a module, such as v1.2.3";
        tag.why.get_or_insert_with(|| why.to_owned());
        let in_feed = false;
        return Ok(TagLine { tag, in_feed });
    };
    let shown = app.index()?.version(path, version).await;
    let shown = shown.map_err(unreadable)?;
    let in_feed = shown
        .as_ref()
        .is_some_and(|shown| shown.repo == repo && shown.tag == tag.name);
    if let (false, Some(shown)) = (in_feed, shown) {
        let why = format!(
            "tag {} of {} has the better claim to this version",
            shown.tag, shown.repo
        );
        tag.why.get_or_insert(why);
    }
    Ok(TagLine { tag, in_feed })
}

/// Lists a source, or indexes a repository, at once.
pub(crate) async fn now(
    app: &Arc<App>,
    admin: Admin,
    query: Option<&str>,
) -> Result<Response<Body>, WebError> {
    let name = query_text(query, "name")?.ok_or_else(|| {
        let why = "name is missing: a source or a repository, such as github.com/acme/tides";
        WebError::Malformed(why.into())
    })?;
    let name = full(app, name);
    let audit = admin.begins("index now", &name);
    let kinds = list_kinds(app).into_iter().map(|kind| ("source", kind));
    let repos = repo_kinds(app).into_iter();
    for (what, kind) in kinds.chain(repos.map(|kind| ("repository", kind))) {
        match app.queue().retry(&kind, &name).await {
            Ok(false) => {}
            Ok(true) => {
                audit.ends("due now");
                let answer = json!({ "name": name, "what": what, "kind": kind, "due_now": true });
                return respond::json(StatusCode::ACCEPTED, &answer).map(uncached);
            }
            Err(error) => {
                audit.ends(format!("failed: {error}"));
                return Err(unreadable(error));
            }
        }
    }
    audit.ends("no such source or repository");
    Err(WebError::NotIndexed)
}

/// What the index calls a source or repository of this node: the node's own name is a part of it
/// wherever it has one, and nobody needs to know that.
fn full(app: &App, name: String) -> String {
    match app.queue().db().node() {
        "" => name,
        node if name == "hosted" => format!("{name}@{node}"),
        node if name.starts_with("npub1") => format!("{node}/{name}"),
        _ => name,
    }
}

/// The job of this name, of whichever of these kinds it is.
async fn find(app: &App, kinds: Vec<String>, key: &str) -> Result<Option<JobFacts>, WebError> {
    for kind in kinds {
        let found = app.queue().find(&kind, key).await.map_err(unreadable)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The kinds of jobs that list a source: shared, and of this node alone.
fn list_kinds(app: &App) -> Vec<String> {
    kinds(app, &["index-list"], "index-list")
}

fn repo_kinds(app: &App) -> Vec<String> {
    kinds(app, &["index-repo", "index-hosted"], "index-hosted")
}

fn kinds(app: &App, shared: &[&str], own: &str) -> Vec<String> {
    let node = app.queue().db().node();
    let own = (!node.is_empty()).then(|| format!("{own}@{node}"));
    let shared = shared.iter().map(|kind| (*kind).to_owned());
    shared.chain(own).collect()
}

fn unreadable(error: DbError) -> WebError {
    WebError::database("the index cannot be looked at", error)
}
