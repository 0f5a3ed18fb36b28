//! The page of events that wait for git data.

use askama::Template;
use grip_grasp::{WaitingFacts, WaitingStatus};
use http::StatusCode;

use super::{CounterView, Frame, Now, counters};
use crate::{
    api,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// How many events are shown.
const LISTED: usize = 50;

#[derive(Template)]
#[template(path = "purgatory.html", blocks = ["live"])]
struct PurgatoryPage {
    frame: Frame,
    now: Now,
    counters: Vec<CounterView>,
    waiting: Vec<WaitingFacts>,
    more: usize,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let frame = cx.frame().about(
        "Waiting",
        "Events that wait for the git data that proves them",
    );
    let page = PurgatoryPage::read(cx.app, frame, Now::new()).await?;
    super::render(StatusCode::OK, &page)
}

/// The part of the page that changes.
pub(crate) async fn live(app: &App, frame: Frame) -> Result<String, WebError> {
    let page = PurgatoryPage::read(app, frame, Now::stopped()).await?;
    super::html(&page.as_live())
}

fn figures(app: &App) -> Vec<CounterView> {
    let held = app.web.grasp.stats().purgatory;
    counters([
        ("announcements", held.announcements as u64),
        ("states", held.states as u64),
        ("pull requests", held.prs as u64),
        ("expired, still looked for", held.wanted as u64),
    ])
}

impl PurgatoryPage {
    async fn read(app: &App, frame: Frame, now: Now) -> Result<Self, WebError> {
        let waiting = app.web.grasp.waiting(LISTED).await;
        let waiting =
            waiting.map_err(|e| WebError::internal("waiting events cannot be listed", e))?;
        Ok(Self {
            frame,
            now,
            counters: figures(app),
            more: api::purgatory::total(app).saturating_sub(waiting.len()),
            waiting,
        })
    }

    /// It expired: only its data is still looked for.
    fn is_wanted(&self, facts: &WaitingFacts) -> bool {
        facts.status != WaitingStatus::Held
    }

    fn missing(&self, facts: &WaitingFacts) -> String {
        match &facts.contributor {
            Some(path) => format!("{} · to be pushed to /{path}", missing(facts)),
            None => missing(facts),
        }
    }

    fn attempts(&self, facts: &WaitingFacts) -> String {
        match facts.attempts {
            0 => String::new(),
            1 => ", 1 failed attempt".to_owned(),
            n => format!(", {n} failed attempts"),
        }
    }
}

fn missing(facts: &WaitingFacts) -> String {
    let Some(first) = &facts.first_missing else {
        return match &*facts.class {
            "announcement" => "waiting for the first push".to_owned(),
            _ => "no object is known to be missing".to_owned(),
        };
    };
    let name = first
        .name
        .strip_prefix("refs/heads/")
        .unwrap_or(&first.name);
    let commit = format!("missing commit {} for {name}", first.oid.short());
    match facts.missing {
        1 => commit,
        n => format!("{commit} and {} more", n - 1),
    }
}
