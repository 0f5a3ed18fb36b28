//! The list of repositories, searched and sorted.

use askama::Template;
use grip_browse::catalog::Sort;
use http::StatusCode;

use super::{Frame, catalog::RepositoryLine, count, pager::Pager, time::Now};
use crate::{
    query::{page_number, query_value, query_words},
    request_context::{HttpResult, RequestContext},
};

/// Repositories of one page.
const PER_PAGE: usize = 30;

#[derive(Template)]
#[template(path = "repositories.html")]
struct RepositoriesPage {
    frame: Frame,
    search: String,
    sort: &'static str,
    total: usize,
    lines: Vec<RepositoryLine>,
    pager: Pager,
}

impl RepositoriesPage {
    fn found(&self) -> String {
        let found = count(self.total as u64, "repository", "repositories");
        match &*self.search {
            "" => found,
            search => format!("{found} with “{search}”"),
        }
    }
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let search = query_words(cx.query(), "q")?.unwrap_or_default();
    let page = page_number(cx.query())?;
    let (order, sort) = match query_value(cx.query(), "sort") {
        Some("name") => (Sort::Name, "name"),
        Some("owner") => (Sort::Owner, "owner"),
        _ => (Sort::Updated, "updated"),
    };
    let catalog = cx.app.catalog.get(cx.app).await?;
    let found = catalog.find(&search, order);
    let frame = cx
        .frame()
        .about("Repositories", "Git repositories that this node serves");
    let (now, skip) = (Now::new(), (page - 1) * PER_PAGE);
    let shown = found.iter().skip(skip).take(PER_PAGE);
    let lines = shown.map(|entry| RepositoryLine::new(entry, &catalog, &frame, now));
    let lines = lines.collect();
    let encoded = grip_types::percent_encode(&search);
    let root = frame.root().to_owned();
    let page = RepositoriesPage {
        total: found.len(),
        lines,
        pager: Pager::of(page, found.len().div_ceil(PER_PAGE), |page| {
            format!("{root}repositories?q={encoded}&sort={sort}&page={page}")
        }),
        search,
        sort,
        frame,
    };
    super::render(StatusCode::OK, &page)
}
