//! The landing page.

use askama::Template;
use grip_browse::{
    activity::{Activity, Deed},
    catalog::Catalog,
};
use http::StatusCode;

use super::{
    CounterView, Frame,
    catalog::{self, RepositoryLine},
    counters,
    time::{Moment, Now},
};
use crate::{
    app::App,
    error::WebError,
    private,
    request_context::{HttpResult, RequestContext},
};

/// Repositories listed.
const LISTED: usize = 12;

#[derive(Template)]
#[template(path = "home.html", blocks = ["live"])]
pub(super) struct Home {
    pub(super) frame: Frame,
    pub(super) description: String,
    pub(super) counters: Vec<CounterView>,
    pub(super) lines: Vec<RepositoryLine>,
    pub(super) activity: Vec<ActivityLine>,
    pub(super) total: usize,
    /// Repositories beyond those listed.
    pub(super) more: usize,
    pub(super) grasps: String,
    pub(super) criteria: String,
    pub(super) curation: Option<String>,
}

/// Nothing of what is here is shown.
#[derive(Template)]
#[template(path = "private.html")]
struct Closed {
    frame: Frame,
    description: String,
    criteria: String,
}

/// Something that somebody did.
pub(super) struct ActivityLine {
    pub(super) who: String,
    pub(super) who_href: String,
    pub(super) did: &'static str,
    /// What it is about, with its page.
    pub(super) subject: String,
    pub(super) href: String,
    pub(super) repository: String,
    pub(super) repository_href: String,
    pub(super) when: Moment,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    if !private::is_member(cx) {
        return closed(cx);
    }
    let page = Home::read(cx.app, cx.frame(), Now::new()).await?;
    super::render(StatusCode::OK, &page)
}

/// The part of the page that changes.
pub(crate) async fn live(app: &App, frame: Frame) -> Result<String, WebError> {
    let page = Home::read(app, frame, Now::stopped()).await?;
    super::html(&page.as_live())
}

impl Home {
    async fn read(app: &App, frame: Frame, now: Now) -> Result<Self, WebError> {
        let catalog = app.catalog.get(app).await?;
        let newest = catalog.iter().take(LISTED);
        let lines: Vec<_> = newest
            .map(|entry| RepositoryLine::new(entry, &catalog, &frame, now))
            .collect();
        let activity = catalog.activity.iter();
        let activity = activity.map(|activity| ActivityLine::new(activity, &catalog, &frame, now));
        let settings = app.settings();
        let node = &settings.node;
        let grasps = node.grasps.iter().map(|n| format!("GRASP-{n:02}"));
        Ok(Self {
            description: node.description.clone(),
            counters: figures(app, &catalog),
            activity: activity.collect(),
            total: catalog.len(),
            more: catalog.len().saturating_sub(lines.len()),
            lines,
            grasps: grasps.collect::<Vec<_>>().join(", "),
            criteria: node.repo_acceptance_criteria.clone(),
            curation: node.curation.clone(),
            frame,
        })
    }
}

impl ActivityLine {
    fn new(activity: &Activity, catalog: &Catalog, frame: &Frame, now: Now) -> Self {
        let repository_href = frame.repository(&activity.repo);
        let entry = catalog.get(&activity.repo);
        let at_ms = i64::try_from(activity.at).unwrap_or(0).saturating_mul(1000);
        Self {
            who: catalog::person(&activity.author, catalog),
            who_href: frame.author(&activity.author),
            did: match activity.deed {
                Deed::Pushed => "pushed to",
                Deed::OpenedIssue => "opened an issue in",
                Deed::SentPatch => "sent a patch to",
                Deed::ProposedChange => "proposed a change to",
            },
            subject: activity.subject.clone(),
            href: format!("{repository_href}/topic/{}", activity.event),
            repository: entry.map_or_else(
                || activity.repo.identifier.as_str().to_owned(),
                |entry| entry.name.clone(),
            ),
            repository_href,
            when: now.ago(&at_ms),
        }
    }
}

/// The page of a private service for those who have shown no proof.
fn closed(cx: &RequestContext<'_>) -> HttpResult {
    let node = &cx.settings.node;
    let page = Closed {
        description: node.description.clone(),
        criteria: node.repo_acceptance_criteria.clone(),
        frame: cx.frame(),
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
