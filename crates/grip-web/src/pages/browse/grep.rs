//! Search in the files of a commit.

use askama::Template;
use http::StatusCode;

use super::{GIT_BOUNDS, Header, Visit, encode_path, not_inspected, visit::Target};
use crate::{
    pages::{self, Frame},
    query::query_words,
    request_context::{HttpResult, RequestContext},
};

/// Matches that are shown.
const MAX_MATCHES: usize = 300;
/// Longest line shown.
const MAX_LINE_CHARS: usize = 300;
/// Longest text that is searched for.
const MAX_TEXT: usize = 200;

struct Match {
    path: String,
    href: String,
    line: usize,
    text: String,
}

#[derive(Template)]
#[template(path = "grep.html")]
struct GrepPage {
    frame: Frame,
    header: Header,
    target: Target,
    search: String,
    matches: Vec<Match>,
    is_cut: bool,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "code").await?;
    let target = visit.target(cx.params()[0]).await?;
    let search = query_words(cx.query(), "q")?.unwrap_or_default();
    let shown = search.chars().filter(|c| !c.is_control());
    let search: String = shown.take(MAX_TEXT).collect();
    let (found, is_cut) = if search.trim().is_empty() {
        (Vec::new(), false)
    } else {
        let repositories = &cx.app.web.repositories;
        let found = repositories.grep(&visit.repo, &target.commit, &search, GIT_BOUNDS);
        found.await.map_err(not_inspected)?
    };
    let (base, at) = (&visit.header.base, &visit.header.at);
    let is_cut = is_cut || found.len() > MAX_MATCHES;
    let matches = found.into_iter().take(MAX_MATCHES).map(|found| Match {
        href: format!(
            "{base}/blob/{at}/{}?plain#L{}",
            encode_path(&found.path),
            found.line
        ),
        text: found.text.chars().take(MAX_LINE_CHARS).collect(),
        path: found.path,
        line: found.line,
    });
    let matches = matches.collect();
    let mut frame = visit.frame("Search", "Search in files");
    frame.is_unlisted = true;
    let page = GrepPage {
        frame,
        header: visit.header.clone(),
        target,
        search,
        matches,
        is_cut,
    };
    pages::render(StatusCode::OK, &page)
}
