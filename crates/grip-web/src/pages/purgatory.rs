//! The page of events that wait for git data.

use askama::Template;
use grip_grasp::{WaitingFacts, WaitingStatus};
use http::StatusCode;

use super::{CounterView, Frame, counters, distance};
use crate::{
    api,
    app::App,
    error::WebError,
    metrics::unix_now_ms,
    request_context::{HttpResult, RequestContext},
};

/// How many events are shown.
const LISTED: usize = 50;

#[derive(Template)]
#[template(path = "purgatory.html")]
struct PurgatoryPage {
    frame: Frame,
    counters: Vec<CounterView>,
    waiting: Vec<WaitingLine>,
    more: usize,
}

/// An event that waits for git data.
struct WaitingLine {
    /// `state`, `pull request`, `announcement`.
    kind: String,
    identifiers: String,
    author: String,
    short: String,
    /// The URL of its explanation.
    explain: String,
    /// It expired: only its data is still looked for.
    is_wanted: bool,
    details: String,
    until: String,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let waiting = cx.app.web.grasp.waiting(LISTED).await;
    let waiting = waiting.map_err(|e| WebError::internal("waiting events cannot be listed", e))?;
    let (frame, now) = (cx.frame(), unix_now_ms());
    let page = PurgatoryPage {
        counters: figures(cx.app),
        more: api::purgatory::total(cx.app).saturating_sub(waiting.len()),
        waiting: waiting
            .into_iter()
            .map(|facts| line(facts, &frame, now))
            .collect(),
        frame,
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

fn line(facts: WaitingFacts, frame: &Frame, now: i64) -> WaitingLine {
    let received = match distance(facts.since, now).as_str() {
        "now" => "received just now".to_owned(),
        since => format!("received {since}"),
    };
    let details = [Some(missing(&facts)), next(&facts, now), Some(received)];
    WaitingLine {
        kind: facts.class.replace('_', " "),
        identifiers: facts.identifiers.join(", "),
        author: super::short_npub(&facts.author),
        short: facts.id.get(..8).unwrap_or(&facts.id).to_owned(),
        explain: format!("{}api/v1/explain/{}", frame.root(), facts.id),
        is_wanted: facts.status != WaitingStatus::Held,
        details: details
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · "),
        until: format!("expires {}", distance(facts.deadline, now)),
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
fn next(facts: &WaitingFacts, now: i64) -> Option<String> {
    let attempts = match facts.attempts {
        0 => String::new(),
        1 => ", 1 failed attempt".to_owned(),
        n => format!(", {n} failed attempts"),
    };
    match facts.next_attempt {
        _ if facts.in_progress => Some("fetching now".to_owned()),
        Some(at) => Some(format!("next attempt {}{attempts}", distance(at, now))),
        None => None,
    }
}
