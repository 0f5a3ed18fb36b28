//! The state of the index, its repositories and tags, and the order to index one now.

use grip_db::DbError;
use grip_index::{LeftSources, Reader, RepoFacts, SourceStatus, TagFacts};
use grip_queue::JobFacts;
use http::StatusCode;
use serde_json::json;

use super::{
    json, next_page,
    types::{
        IndexDueNow, IndexSource, IndexStatus, IndexWork, IndexedRepo, IndexedRepos, IndexedTag,
        SourceForgotten, SumDbView,
    },
};
use crate::{
    admin::Admin,
    app::App,
    error::WebError,
    go,
    query::{decoded, query_text},
    request_context::{HttpResult, RequestContext},
    restricted, sumdb,
};

/// Tags of one answer: each that claims a version is looked up.
const MOST_TAGS: usize = 200;

fn work(job: Option<JobFacts>) -> IndexWork {
    job.map_or_else(IndexWork::default, |job| IndexWork {
        state: Some(job.state),
        next_due_ms: job.due_ms,
        attempts: job.attempts,
        last_error: job.last_error,
    })
}

/// The sources by name, with the work on each.
pub(crate) async fn sources(
    app: &App,
    sources: Vec<SourceStatus>,
) -> Result<Vec<IndexSource>, WebError> {
    let mut lines = Vec::new();
    for status in sources {
        let job = find(app, list_kinds(app), &status.name).await?;
        let work = work(job);
        lines.push(IndexSource { status, work });
    }
    Ok(lines)
}

/// Sources and totals.
pub(crate) async fn status(cx: &RequestContext<'_>) -> HttpResult {
    let app = cx.app;
    let status = app.samples.index_status(app.index()?).await;
    let reader = restricted::reader(cx);
    let mut status = status.map_err(unreadable)?.for_reader(reader);
    let sources = sources(app, std::mem::take(&mut status.sources)).await?;
    json(StatusCode::OK, &json!(IndexStatus { status, sources }))
}

/// Repositories, page by page.
pub(crate) async fn repos(cx: &RequestContext<'_>) -> HttpResult {
    let limit = super::limit(cx.query())?;
    let after = query_text(cx.query(), "after")?.unwrap_or_default();
    let reader = restricted::reader(cx);
    let repos = cx.app.index()?.repos(&after, limit, reader).await;
    let repos: Vec<RepoFacts> = repos.map_err(unreadable)?;
    let next = next_page(&repos, limit, |repo| repo.name.clone());
    json(StatusCode::OK, &IndexedRepos { repos, next })
}

/// One repository with its tags and why each is in the feed or not.
pub(crate) async fn repo(cx: &RequestContext<'_>) -> HttpResult {
    let (app, name) = (cx.app, cx.params()[0].trim_matches('/'));
    let name = full(app, decoded(name, "the repository")?);
    let limit = super::limit(cx.query())?.min(MOST_TAGS);
    let after = query_text(cx.query(), "after")?.unwrap_or_default();
    let index = app.index()?;
    let job = find(app, repo_kinds(app), &name).await?;
    let tags = index.tags(&name, &after, limit).await.map_err(unreadable)?;
    let facts = index.repo(&name).await.map_err(unreadable)?;
    let reader = restricted::reader(cx);
    let is_seen = match &facts {
        Some(facts) => reader.sees(facts.audience),
        None => job.is_some(),
    };
    if !is_seen {
        return Err(WebError::NotIndexed);
    }
    let next = next_page(&tags, limit, |tag| tag.name.clone());
    let mut lines = Vec::new();
    for tag in tags {
        lines.push(tag_line(app, &name, tag, reader).await?);
    }
    let answer = IndexedRepo {
        name,
        facts,
        work: work(job),
        tags: lines,
        next,
    };
    json(StatusCode::OK, &json!(answer))
}

/// Says of a tag that claims a version whether the feed shows it, or whose it shows instead.
async fn tag_line(
    app: &App,
    repo: &str,
    mut tag: TagFacts,
    reader: Reader,
) -> Result<IndexedTag, WebError> {
    let (Some(path), Some(version)) = (&tag.path, &tag.version) else {
        let why = "its name is no version of a module, such as v1.2.3";
        tag.why.get_or_insert_with(|| why.to_owned());
        let in_feed = false;
        return Ok(IndexedTag { tag, in_feed });
    };
    let shown = app.index()?.version(path, version).await;
    let shown = shown.map_err(unreadable)?;
    let in_feed = shown
        .as_ref()
        .is_some_and(|shown| shown.repo == repo && shown.tag == tag.name);
    if let (false, Some(shown)) = (in_feed, shown) {
        let whose = if reader.sees(shown.audience) {
            format!("tag {} of {}", shown.tag, shown.repo)
        } else {
            "another repository".to_owned()
        };
        let why = format!("{whose} has the better claim to this version");
        tag.why.get_or_insert(why);
    }
    Ok(IndexedTag { tag, in_feed })
}

/// The checksum database: its name and key, and what it was moved away from.
pub(crate) async fn sumdb(cx: &RequestContext<'_>) -> HttpResult {
    sumdb::of(cx.app)?;
    let limit = super::limit(cx.query())?.min(MOST_TAGS);
    json(StatusCode::OK, &json!(sumdb_view(cx, limit).await?))
}

/// The same for a page; none where there is no checksum database.
pub(crate) async fn sumdb_view(
    cx: &RequestContext<'_>,
    limit: usize,
) -> Result<Option<SumDbView>, WebError> {
    let Ok(sumdb) = sumdb::of(cx.app) else {
        return Ok(None);
    };
    let status = sumdb.status().await.map_err(sumdb::unreadable)?;
    let moved_versions = sumdb.moved(limit).await.map_err(sumdb::unreadable)?;
    let url = sumdb::url(&cx.settings.service, &status.name);
    Ok(Some(SumDbView {
        status,
        url,
        moved_versions,
    }))
}

/// Verifies one page of the checksum database.
pub(crate) async fn verify(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let page = query_text(cx.query(), "page")?.unwrap_or_else(|| "0".to_owned());
    let malformed = |_| WebError::Malformed("page is a number".into());
    let page: u64 = page.parse().map_err(malformed)?;
    let audit = admin.begin("index verify", page.to_string());
    match cx.app.proxy()?.verify(page).await {
        Ok(verified) => {
            audit.end(format!("{} wrong", verified.wrong.len()));
            json(StatusCode::OK, &json!(verified))
        }
        Err(error) => {
            audit.end(format!("failed: {error}"));
            Err(go::refused(error))
        }
    }
}

/// Lists a source, or indexes a repository, at once.
pub(crate) async fn now(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let app = cx.app;
    let name = query_text(cx.query(), "name")?.ok_or_else(|| {
        let why = "name is missing: a source or a repository, such as github.com/acme/tides";
        WebError::Malformed(why.into())
    })?;
    let name = full(app, name);
    let audit = admin.begin("index now", &name);
    let kinds = list_kinds(app).into_iter().map(|kind| ("source", kind));
    let repos = repo_kinds(app).into_iter();
    for (what, kind) in kinds.chain(repos.map(|kind| ("repository", kind))) {
        match app.web.queue.retry(&kind, &name).await {
            Ok(false) => {}
            Ok(true) => {
                audit.end("due now");
                let answer = IndexDueNow {
                    name,
                    what,
                    kind,
                    due_now: true,
                };
                return json(StatusCode::ACCEPTED, &answer);
            }
            Err(error) => {
                audit.end(format!("failed: {error}"));
                return Err(unreadable(error));
            }
        }
    }
    audit.end("not found");
    Err(WebError::NotIndexed)
}

/// Takes leave of a source that is not in the settings any more.
pub(crate) async fn forget(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let app = cx.app;
    let missing = || WebError::Malformed("source is missing, such as github.com/orgs/acme".into());
    let source = query_text(cx.query(), "source")?.ok_or_else(missing)?;
    let how = query_text(cx.query(), "how")?;
    let how = LeftSources::named(how.as_deref().unwrap_or("remove"));
    let how = how.filter(|how| *how != LeftSources::Keep).ok_or_else(|| {
        let why = "how is neither hide nor remove";
        WebError::Malformed(why.into())
    })?;
    let source = full(app, source);
    let index = app.index()?;
    let known = app.samples.index_status(index).await.map_err(unreadable)?;
    if !known.sources.iter().any(|known| known.name == source) {
        return Err(WebError::NotIndexed);
    }
    let audit = admin.begin("index forget", &source);
    match index.forget_source(&source, how).await {
        Ok(true) => audit.end(how.name()),
        Ok(false) => {
            audit.end("refused: it is configured");
            let why = "it is in the settings; take it out of index_github first";
            return Err(WebError::Malformed(why.into()));
        }
        Err(error) => {
            audit.end(format!("failed: {error}"));
            return Err(unreadable(error));
        }
    }
    let answer = SourceForgotten {
        source,
        how: how.name(),
    };
    json(StatusCode::ACCEPTED, &answer)
}

/// The name of a source or repository in the index: that of this node is a part of it where the
/// node has one, and nobody needs to know that.
fn full(app: &App, name: String) -> String {
    match app.web.queue.db().node() {
        "" => name,
        node if name == "hosted" => format!("{name}@{node}"),
        node if name.starts_with("npub1") => format!("{node}/{name}"),
        _ => name,
    }
}

/// The job of this name, of whichever of these kinds it is.
async fn find(app: &App, kinds: Vec<String>, key: &str) -> Result<Option<JobFacts>, WebError> {
    for kind in kinds {
        let found = app.web.queue.find(&kind, key).await.map_err(unreadable)?;
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
    let node = app.web.queue.db().node();
    let own = (!node.is_empty()).then(|| format!("{own}@{node}"));
    let shared = shared.iter().map(|kind| (*kind).to_owned());
    shared.chain(own).collect()
}

pub(crate) fn unreadable(error: DbError) -> WebError {
    WebError::internal("the index cannot be read", error)
}
