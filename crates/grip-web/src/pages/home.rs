//! The landing page.

use askama::Template;
use grip_browse::catalog::Catalog;
use http::StatusCode;

use super::{CounterView, Frame, catalog::RepositoryLine, counters, time::Now};
use crate::{
    app::App,
    private,
    request_context::{HttpResult, RequestContext},
};

/// Repositories listed.
const LISTED: usize = 20;

#[derive(Template)]
#[template(path = "home.html")]
pub(super) struct Home {
    pub(super) frame: Frame,
    pub(super) description: String,
    pub(super) counters: Vec<CounterView>,
    pub(super) lines: Vec<RepositoryLine>,
    pub(super) total: usize,
    /// Repositories beyond those listed.
    pub(super) more: usize,
    pub(super) grasps: String,
    pub(super) criteria: String,
    pub(super) curation: Option<String>,
    /// Nothing of what is here is shown.
    pub(super) is_private: bool,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let (app, frame, now) = (cx.app, cx.frame(), Now::new());
    if !private::is_member(cx) {
        return closed(cx, frame);
    }
    let catalog = app.catalog.get(app).await?;
    let newest = catalog.iter().take(LISTED);
    let lines: Vec<_> = newest
        .map(|entry| RepositoryLine::new(entry, &catalog, &frame, now))
        .collect();
    let node = &cx.settings.node;
    let grasps = node.grasps.iter().map(|n| format!("GRASP-{n:02}"));
    let page = Home {
        description: node.description.clone(),
        counters: figures(app, &catalog),
        total: catalog.len(),
        more: catalog.len().saturating_sub(lines.len()),
        lines,
        grasps: grasps.collect::<Vec<_>>().join(", "),
        criteria: node.repo_acceptance_criteria.clone(),
        curation: node.curation.clone(),
        is_private: false,
        frame,
    };
    super::render(StatusCode::OK, &page)
}

/// The page of a private service for those who have shown no proof.
fn closed(cx: &RequestContext<'_>, frame: Frame) -> HttpResult {
    let node = &cx.settings.node;
    let page = Home {
        description: node.description.clone(),
        counters: Vec::new(),
        lines: Vec::new(),
        total: 0,
        more: 0,
        grasps: String::new(),
        criteria: node.repo_acceptance_criteria.clone(),
        curation: None,
        is_private: true,
        frame,
    };
    super::render(StatusCode::OK, &page)
}

/// What is served and waits. Repositories are those that the lists show: one that waits for its first
/// push is on disk and not among them.
pub(super) fn figures(app: &App, catalog: &Catalog) -> Vec<CounterView> {
    let stats = app.web.grasp.stats();
    let waiting = stats.purgatory.announcements + stats.purgatory.states + stats.purgatory.prs;
    counters([
        ("repositories", catalog.len() as u64),
        ("events served", catalog.events),
        ("waiting for git data", waiting as u64),
        ("relay clients", app.web.relay.stats().connections.get()),
    ])
}
