//! Branches and tags.

use std::collections::HashMap;

use askama::Template;
use grip_git::Ref;
use grip_types::Oid;
use http::StatusCode;

use super::{
    GIT_BOUNDS, Header, Visit,
    compare::see_other,
    encode_path,
    log::{self, CommitLine},
};
use crate::{
    error::WebError,
    pages::{self, Frame, pager::Pager, time::Now},
    query::{page_number, query_words},
    request_context::{HttpResult, RequestContext},
};

/// Branches and tags of one page.
const PER_PAGE: usize = 100;

struct RefLine {
    name: String,
    /// The name as addresses have it.
    encoded: String,
    is_head: bool,
    is_tag: bool,
    commit: Option<CommitLine>,
    /// Commits it has and lacks, against the branch of HEAD.
    counts: Option<(usize, usize)>,
}

#[derive(Template)]
#[template(path = "refs.html")]
struct RefsPage {
    frame: Frame,
    header: Header,
    head: String,
    lines: Vec<RefLine>,
    has_moves: bool,
    pager: Pager,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let visit = Visit::open(cx, "refs").await?;
    let page = page_number(cx.query())?;
    let shown: Vec<&Ref> = visit
        .refs
        .iter()
        .filter(|found| found.name.is_state_ref())
        .collect();
    let total = shown.len();
    let skip = (page - 1).saturating_mul(PER_PAGE);
    let shown: Vec<&Ref> = shown.into_iter().skip(skip).take(PER_PAGE).collect();
    let commit = |found: &Ref| found.peeled.unwrap_or(found.oid);
    let oids: Vec<Oid> = shown.iter().map(|found| commit(found)).collect();
    let details = log::details(&visit, oids).await?;
    let details: HashMap<_, _> = details
        .iter()
        .map(|details| (details.oid, details))
        .collect();
    let (base, now) = (&visit.header.base, Now::new());
    let counts = match visit.head() {
        Some(head) => {
            let bounds = grip_git::InspectBounds {
                time: std::time::Duration::from_secs(2),
                ..GIT_BOUNDS
            };
            let repositories = &cx.app.web.repositories;
            let counted = repositories.ahead_behind(&visit.repo, &head.commit, PER_PAGE, bounds);
            // A comfort: the page is shown without it where it takes too long.
            counted.await.unwrap_or_default()
        }
        None => HashMap::new(),
    };
    let head = visit.refs.head();
    let line = |found: &&Ref| RefLine {
        name: found.name.short().to_owned(),
        encoded: encode_path(found.name.short()),
        is_head: head == Some(&found.name),
        is_tag: found.name.is_tag(),
        commit: details
            .get(&commit(found))
            .map(|details| CommitLine::new(details, base, now)),
        counts: counts.get(&found.name).copied(),
    };
    let here = format!("{base}/refs");
    let mut frame = visit.frame("Branches and tags", "Branches and tags");
    frame.feed = Some(format!("{base}/tags.atom"));
    let page = RefsPage {
        frame,
        head: head.map_or("", |head| head.short()).to_owned(),
        lines: shown.iter().map(line).collect(),
        has_moves: visit.refs.moves().next().is_some(),
        pager: Pager::of(page, total.div_ceil(PER_PAGE), |page| {
            format!("{here}?page={page}")
        }),
        header: visit.header.clone(),
    };
    pages::render(StatusCode::OK, &page)
}

/// Leads from the list of branches on a page to the one that was chosen.
pub(crate) fn go(cx: &RequestContext<'_>) -> HttpResult {
    let name = query_words(cx.query(), "to")?;
    let name = name.ok_or(WebError::NotInRepository("branch without a name"))?;
    let base = cx.frame().repository(cx.repository()?);
    see_other(&format!("{base}/tree/{}", encode_path(&name)))
}
