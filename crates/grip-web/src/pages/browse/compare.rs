//! Two revisions side by side: the commits of one that the other lacks, and what they change.

use askama::Template;
use http::{HeaderValue, StatusCode, header};

use super::{
    GIT_BOUNDS, Header, Visit,
    commit::{FileChange, Form, Total, file_changes},
    log::{self, CommitLine},
    not_inspected, visit,
};
use crate::{
    error::WebError,
    pages::Frame,
    query::{self, query_words},
    request_context::{HttpResult, RequestContext},
    respond,
};

/// Commits that are listed.
const MAX_COMMITS: usize = 100;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    frame: Frame,
    header: Header,
    before: String,
    after: String,
    commits: Vec<CommitLine>,
    files: Vec<FileChange>,
    total: Total,
    form: Form,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let visit = Visit::open(cx, "refs").await?;
    let text = query::decoded(cx.params()[0], "the path")?;
    let both = text.trim_matches('/').split_once("...");
    let (before, after) = both.ok_or(WebError::NotInRepository(
        "such comparison: name two revisions, as in main...topic",
    ))?;
    let no_such = || WebError::NotInRepository("branch, tag or commit of that name");
    let (from, from_pinned) = visit.revision(before).await?.ok_or_else(no_such)?;
    let (to, to_pinned) = visit.revision(after).await?.ok_or_else(no_such)?;
    let etag = visit.etag(&to);
    let repositories = &cx.app.web.repositories;
    let parted = repositories
        .merge_base(&visit.repo, &from, &to, GIT_BOUNDS)
        .await
        .map_err(not_inspected)?;
    let commits = repositories
        .commits_between(&visit.repo, &from, &to, MAX_COMMITS, GIT_BOUNDS)
        .await
        .map_err(not_inspected)?;
    let (files, total) = file_changes(&visit, parted, to).await?;
    let mut frame = visit.frame(&format!("{before}...{after}"), "Two revisions compared");
    frame.is_unlisted = true;
    let is_pinned = from_pinned && to_pinned;
    let page = ComparePage {
        frame,
        header: visit.header.clone(),
        before: before.to_owned(),
        after: after.to_owned(),
        commits: log::lines(&visit, &commits).await?,
        files,
        total,
        form: Form::read(cx),
    };
    if is_pinned {
        return visit::render(&page, &etag, true);
    }
    crate::pages::render(StatusCode::OK, &page)
}

/// Leads from the form of the page of branches to a comparison.
pub(crate) fn redirect(cx: &RequestContext<'_>) -> HttpResult {
    let name = |name| query_words(cx.query(), name).map(Option::unwrap_or_default);
    let (before, after) = (name("before")?, name("after")?);
    let names = format!("{}...{}", before.trim(), after.trim());
    let base = cx.frame().repository(cx.repository()?);
    see_other(&format!("{base}/compare/{}", super::encode_path(&names)))
}

pub(super) fn see_other(target: &str) -> HttpResult {
    let location = HeaderValue::from_str(target);
    let location = location.map_err(|e| WebError::internal("a path is no header value", e))?;
    let mut response = respond::text(StatusCode::SEE_OTHER, format!("{target}\n"));
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}
