//! Gathers what the page of modules shows.

use std::sync::Arc;

use grip_db::DbError;
use grip_index::{Clock, Entry, FeedQuery, Status};
use grip_queue::State;
use http::{Response, StatusCode};

use crate::{
    api::index::SourceLine,
    app::{App, Asked},
    body::Body,
    error::WebError,
    metrics::unix_now_ms,
    pages::{
        self, CounterView, Frame, Notice,
        modules::{ModulesPage, SourceView, VersionLine},
    },
};

/// How much of each list is shown.
const VERSIONS: usize = 20;
const SOURCES: usize = 50;

/// The page of the index.
pub(crate) async fn modules(app: &Arc<App>, asked: &Asked) -> Result<Response<Body>, WebError> {
    let frame = Frame::new(&asked.settings, app.build());
    let Ok(index) = app.index() else {
        return pages::draw(StatusCode::OK, &switched_off(frame));
    };
    let now = unix_now_ms();
    let newest = FeedQuery {
        clock: Clock::Created,
        limit: VERSIONS,
        ..FeedQuery::default()
    };
    let newest = index.feed(&newest).await.map_err(unreadable)?.entries;
    let status = app.sampled().index_status(index).await;
    let mut status = status.map_err(unreadable)?;
    status.sources.truncate(SOURCES);
    let sources = std::mem::take(&mut status.sources);
    let sources = crate::api::index::sources(app, sources).await?;
    let page = ModulesPage {
        notice: None,
        counters: counters(&status),
        example: newest
            .iter()
            .find(|entry| frame.repository_of(&entry.path).is_some())
            .map(|entry| format!("{}@{}", entry.path, entry.version)),
        proxy: app.proxy().is_ok(),
        more_versions: u64::try_from(status.versions)
            .unwrap_or(0)
            .saturating_sub(newest.len() as u64),
        versions: newest
            .into_iter()
            .map(|entry| version_line(entry, &frame))
            .collect(),
        sources: sources.into_iter().map(|s| source_view(s, now)).collect(),
        frame,
    };
    pages::draw(StatusCode::OK, &page)
}

fn switched_off(frame: Frame) -> ModulesPage {
    ModulesPage {
        frame,
        notice: Some(Notice {
            title: "The index is switched off.",
            why: "This node lists no modules.".to_owned(),
            missing: Vec::new(),
            until: None,
        }),
        counters: Vec::new(),
        example: None,
        proxy: false,
        versions: Vec::new(),
        more_versions: 0,
        sources: Vec::new(),
    }
}

fn counters(status: &Status) -> Vec<CounterView> {
    let counter = |label, value: i64| CounterView {
        label,
        value: pages::grouped(u64::try_from(value).unwrap_or(0)),
    };
    vec![
        counter("versions in the feed", status.versions),
        counter("repositories", status.repos),
        counter("tags known", status.tags),
    ]
}

fn version_line(entry: Entry, frame: &Frame) -> VersionLine {
    let repository = frame.repository_of(&entry.path);
    let href = repository.map(|(npub, name)| format!("{}{npub}/{name}.git", frame.root()));
    let short = repository.map_or_else(
        || entry.path.clone(),
        |(npub, _)| entry.path.replacen(npub, &pages::short_npub(npub), 1),
    );
    VersionLine {
        short,
        href,
        created: pages::when_ms(entry.created),
        path: entry.path,
        version: entry.version,
    }
}

fn source_view(source: SourceLine, now: i64) -> SourceView {
    let SourceLine { status, work } = source;
    let repos = match status.repos {
        1 => "1 repository".to_owned(),
        many => format!(
            "{} repositories",
            pages::grouped(u64::try_from(many).unwrap_or(0))
        ),
    };
    let listed = status
        .finished_ms
        .map_or("never listed whole".to_owned(), |at| {
            format!("listed {}", pages::distance(at, now))
        });
    let when = match work.next_due_ms {
        Some(due) if work.state == Some(State::Waiting) => {
            format!("{listed}, again {}", pages::distance(due, now))
        }
        _ => listed,
    };
    SourceView {
        trouble: work
            .last_error
            .filter(|_| work.state != Some(State::Leased)),
        is_listing: work.state == Some(State::Leased),
        name: source_name(status.name),
        repos,
        when,
    }
}

/// The repositories on this node, and on others that share its database, have names of their own.
fn source_name(name: String) -> String {
    match name.strip_prefix("hosted") {
        Some("") => "this node".to_owned(),
        Some(rest) => match rest.strip_prefix('@') {
            Some(node) => format!("node {node}"),
            None => name,
        },
        None => name,
    }
}

fn unreadable(error: DbError) -> WebError {
    WebError::database("the index cannot be read", error)
}
