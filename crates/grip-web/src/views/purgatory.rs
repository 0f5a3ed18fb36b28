//! Gathers what the page of waiting events shows.

use std::sync::Arc;

use grip_grasp::{WaitingFacts, WaitingStatus};
use http::{Response, StatusCode};

use crate::{
    api,
    app::{App, Asked},
    body::Body,
    error::WebError,
    metrics::unix_now_ms,
    pages::{
        self, CounterView, Frame,
        purgatory::{PurgatoryPage, WaitingLine},
    },
};

/// How many events are shown.
const LISTED: usize = 50;

/// The page of what waits for its other half.
pub(crate) async fn purgatory(app: &Arc<App>, asked: &Asked) -> Result<Response<Body>, WebError> {
    let waiting = app.grasp().waiting(LISTED).await;
    let waiting = waiting.map_err(|e| WebError::internal("what waits cannot be listed", e))?;
    let (frame, now) = (Frame::new(&asked.settings, app.build()), unix_now_ms());
    let page = PurgatoryPage {
        counters: counters(app),
        more: api::purgatory::total(app).saturating_sub(waiting.len()),
        waiting: waiting
            .into_iter()
            .map(|facts| line(facts, &frame, now))
            .collect(),
        frame,
    };
    pages::draw(StatusCode::OK, &page)
}

fn counters(app: &App) -> Vec<CounterView> {
    let held = app.grasp().stats().purgatory;
    let counter = |label, value: usize| CounterView {
        label,
        value: pages::grouped(value as u64),
    };
    vec![
        counter("announcements", held.announcements),
        counter("states", held.states),
        counter("pull requests", held.prs),
        counter("expired, still looked for", held.wanted),
    ]
}

fn line(facts: WaitingFacts, frame: &Frame, now: i64) -> WaitingLine {
    let is_over = facts.status != WaitingStatus::Held;
    WaitingLine {
        what: match facts.class {
            "pull_request" => "pull request",
            class => class,
        },
        identifiers: facts.identifiers.join(", "),
        author: pages::short_npub(&facts.author),
        short: facts.id.get(..8).unwrap_or(&facts.id).to_owned(),
        explain: format!("{}api/v1/explain/{}", frame.root(), facts.id),
        is_wanted: is_over,
        details: details(&facts, now),
        until: format!("given up {}", pages::distance(facts.deadline, now)),
    }
}

fn details(facts: &WaitingFacts, now: i64) -> String {
    let came = match pages::distance(facts.since, now).as_str() {
        "now" => "came just now".to_owned(),
        since => format!("came {since}"),
    };
    let parts = [Some(lacks(facts)), next(facts, now), Some(came)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn lacks(facts: &WaitingFacts) -> String {
    match (facts.missing, &facts.first_missing) {
        (0, _) if facts.class == "announcement" => "lacks its first push".to_owned(),
        (1, Some(first)) => format!("lacks {} at {}", first.name, first.oid.short()),
        (n, Some(first)) => format!(
            "lacks {} at {} and {} more",
            first.name,
            first.oid.short(),
            n - 1
        ),
        _ => "lacks nothing that is known".to_owned(),
    }
}

/// When its data is looked for; an announcement waits for a push and nothing else.
fn next(facts: &WaitingFacts, now: i64) -> Option<String> {
    let tries = match facts.attempts {
        0 => String::new(),
        1 => ", tried once".to_owned(),
        n => format!(", tried {n} times"),
    };
    match facts.next_attempt {
        _ if facts.in_progress => Some("being fetched".to_owned()),
        Some(at) => Some(format!("looked for {}{tries}", pages::distance(at, now))),
        None => None,
    }
}
