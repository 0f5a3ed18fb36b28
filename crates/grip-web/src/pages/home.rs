//! The landing page.

use askama::Template;
use http::StatusCode;

use super::{CounterView, Frame, counters, recent_repositories::RepositoryLine};
use crate::{
    app::App,
    request_context::{HttpResult, RequestContext},
};

#[derive(Template)]
#[template(path = "home.html")]
pub(super) struct Home {
    pub(super) frame: Frame,
    pub(super) description: String,
    pub(super) counters: Vec<CounterView>,
    pub(super) repositories: Vec<RepositoryLine>,
    /// Repositories beyond those listed.
    pub(super) more: usize,
    pub(super) grasps: String,
    pub(super) criteria: String,
    pub(super) curation: Option<String>,
    pub(super) metrics: bool,
    pub(super) index: bool,
    /// Whether names are resolved.
    pub(super) resolve: bool,
    /// Whether GitHub is watched.
    pub(super) watch: bool,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let (app, settings, frame) = (cx.app, &cx.settings, cx.frame());
    let recent = app.recent_repositories.list(app, &frame).await?;
    let node = &settings.node;
    let grasps = node.grasps.iter().map(|n| format!("GRASP-{n:02}"));
    let page = Home {
        description: node.description.clone(),
        counters: figures(app, recent.events),
        more: recent.hosted.saturating_sub(recent.lines.len()),
        repositories: recent.lines.clone(),
        grasps: grasps.collect::<Vec<_>>().join(", "),
        criteria: node.repo_acceptance_criteria.clone(),
        curation: node.curation.clone(),
        metrics: settings.metrics,
        index: app.index().is_ok(),
        resolve: app.resolve().is_ok(),
        watch: app.watch().is_ok(),
        frame,
    };
    super::render(StatusCode::OK, &page)
}

fn figures(app: &App, events: u64) -> Vec<CounterView> {
    let stats = app.web.grasp.stats();
    let waiting = stats.purgatory.announcements + stats.purgatory.states + stats.purgatory.prs;
    counters([
        ("repositories", stats.repositories as u64),
        ("events served", events),
        ("waiting for git data", waiting as u64),
        ("relay clients", app.web.relay.stats().connections.get()),
    ])
}
