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
#[template(path = "purgatory.html")]
struct PurgatoryPage {
    frame: Frame,
    now: Now,
    counters: Vec<CounterView>,
    waiting: Vec<WaitingFacts>,
    more: usize,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let waiting = cx.app.web.grasp.waiting(LISTED).await;
    let waiting = waiting.map_err(|e| WebError::internal("waiting events cannot be listed", e))?;
    let page = PurgatoryPage {
        frame: cx.frame().about(
            "Waiting",
            "Events that wait for the git data that proves them",
        ),
        now: Now::new(),
        counters: figures(cx.app),
        more: api::purgatory::total(cx.app).saturating_sub(waiting.len()),
        waiting,
    };
    super::render(StatusCode::OK, &page)
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
    /// It expired: only its data is still looked for.
    fn is_wanted(&self, facts: &WaitingFacts) -> bool {
        facts.status != WaitingStatus::Held
    }

    fn details(&self, facts: &WaitingFacts) -> String {
        let received = match self.now.distance(&facts.since).as_str() {
            "now" => "received just now".to_owned(),
            since => format!("received {since}"),
        };
        let next = next(facts, self.now);
        let contributor = facts.contributor.as_ref();
        let contributor = contributor.map(|path| format!("to be pushed to /{path}"));
        let details = [Some(missing(facts)), contributor, next, Some(received)];
        let details: Vec<_> = details.into_iter().flatten().collect();
        details.join(" · ")
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

/// When its data is fetched next; an announcement waits for a push and nothing else.
fn next(facts: &WaitingFacts, now: Now) -> Option<String> {
    let attempts = match facts.attempts {
        0 => String::new(),
        1 => ", 1 failed attempt".to_owned(),
        n => format!(", {n} failed attempts"),
    };
    match facts.next_attempt {
        _ if facts.in_progress => Some("fetching now".to_owned()),
        Some(at) => Some(format!("next attempt {}{attempts}", now.distance(&at))),
        None => None,
    }
}
