//! History: all commits of a revision, or those of one path.

use askama::Template;
use grip_git::CommitDetails;
use grip_types::Oid;

use super::{
    GIT_BOUNDS, Header, Visit, encode_path,
    files::{Crumb, crumbs},
    not_inspected,
    visit::{self, Target},
};
use crate::{
    error::WebError,
    pages::{
        Frame,
        pager::Pager,
        time::{Moment, Now},
    },
    query::page_number,
    request_context::{HttpResult, RequestContext},
};

/// Commits of one page.
const PER_PAGE: usize = 50;
/// Pages of the history of one path: git counts from its beginning each time.
const MAX_PATH_PAGES: usize = 100;

/// One commit in a list.
#[derive(Clone, Debug)]
pub(crate) struct CommitLine {
    pub(crate) subject: String,
    pub(crate) href: String,
    pub(crate) short: String,
    pub(crate) author: String,
    pub(crate) when: Moment,
}

impl CommitLine {
    pub(crate) fn new(details: &CommitDetails, base: &str, now: Now) -> Self {
        let subject: String = details.subject().chars().take(120).collect();
        Self {
            subject: if subject.is_empty() {
                "(no message)".to_owned()
            } else {
                subject
            },
            href: format!("{base}/commit/{}", details.oid),
            short: details.oid.short(),
            author: details.author.name.chars().take(60).collect(),
            when: now.ago(&details.committer.at_ms),
        }
    }
}

/// The lines of these commits; those that cannot be read are left out.
pub(crate) async fn lines(visit: &Visit<'_>, commits: &[Oid]) -> Result<Vec<CommitLine>, WebError> {
    let details = details(visit, commits.to_vec()).await?;
    let (base, now) = (&visit.header.base, Now::new());
    let lines = details
        .iter()
        .map(|details| CommitLine::new(details, base, now));
    Ok(lines.collect())
}

pub(super) async fn details(
    visit: &Visit<'_>,
    commits: Vec<Oid>,
) -> Result<Vec<CommitDetails>, WebError> {
    visit
        .read(move |repositories, repo| {
            let details = commits
                .iter()
                .map(|oid| repositories.details(&repo.identifier, oid));
            let details: Result<Vec<_>, _> = details.collect();
            Ok(details?.into_iter().flatten().collect())
        })
        .await
}

#[derive(Template)]
#[template(path = "log.html")]
struct LogPage {
    frame: Frame,
    header: Header,
    crumbs: Vec<Crumb>,
    target: Target,
    commits: Vec<CommitLine>,
    pager: Pager,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "history").await?;
    let target = match cx.params()[0] {
        "" => visit
            .head()
            .ok_or(WebError::NotInRepository("commit yet"))?,
        path => visit.target(path).await?,
    };
    let page = page_number(cx.query())?;
    let etag = visit.etag(&target.commit);
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let history = visit.history(vec![target.commit]).await?;
    let skip = (page - 1).saturating_mul(PER_PAGE);
    let shown = history.get(skip..).unwrap_or_default();
    let shown = &shown[..shown.len().min(PER_PAGE)];
    let commits = lines(&visit, shown).await?;
    let here = format!("{}/log/{}", visit.header.base, encode_path(&target.name));
    let pages = history.len().div_ceil(PER_PAGE);
    let pager = Pager::of(page, pages, |page| format!("{here}?page={page}"));
    render(&visit, target, commits, pager, &etag)
}

/// The commits that change one path.
pub(crate) async fn of_path(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "history").await?;
    let target = visit.target(cx.params()[0]).await?;
    let page = page_number(cx.query())?;
    if page > MAX_PATH_PAGES {
        return Err(WebError::NotShown("the history is too long"));
    }
    let etag = visit.etag(&target.commit);
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let range = ((page - 1) * PER_PAGE, PER_PAGE + 1);
    let mut found = cx
        .app
        .web
        .repositories
        .path_history(&visit.repo, &target.commit, &target.path, range, GIT_BOUNDS)
        .await
        .map_err(not_inspected)?;
    let is_more = found.len() > PER_PAGE;
    found.truncate(PER_PAGE);
    let commits = lines(&visit, &found).await?;
    let (base, at) = (&visit.header.base, &visit.header.at);
    let here = format!("{base}/history/{at}/{}", encode_path(&target.path));
    let pager = Pager::open(page, is_more, |page| format!("{here}?page={page}"));
    render(&visit, target, commits, pager, &etag)
}

fn render(
    visit: &Visit<'_>,
    target: Target,
    commits: Vec<CommitLine>,
    pager: Pager,
    etag: &crate::etag::ETag,
) -> HttpResult {
    let title = match &*target.path {
        "" => format!("History of {}", target.name),
        path => format!("History of {path}"),
    };
    let mut frame = visit.frame(&title, &format!("Commits of {}", visit.header.name));
    frame.is_unlisted = target.is_pinned || !target.path.is_empty();
    let is_pinned = target.is_pinned;
    let page = LogPage {
        frame,
        crumbs: crumbs(&visit.header, &target.path),
        header: visit.header.clone(),
        target,
        commits,
        pager,
    };
    visit::render(&page, etag, is_pinned)
}
