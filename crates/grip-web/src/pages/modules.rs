//! The page of the module index.

use askama::Template;
use grip_db::DbError;
use grip_index::{Clock, Entry, FeedQuery};
use grip_queue::State;
use http::StatusCode;

use super::{CounterView, Frame, Notice, counters, distance, unsigned};
use crate::{
    api::index,
    api_types::IndexSource,
    error::WebError,
    metrics::unix_now_ms,
    request_context::{HttpResult, RequestContext},
};

/// How much of each list is shown.
const VERSIONS: usize = 20;
const SOURCES: usize = 50;

#[derive(Template)]
#[template(path = "modules.html")]
struct ModulesPage {
    frame: Frame,
    notice: Option<Notice>,
    counters: Vec<CounterView>,
    /// A module to try, if one is there.
    example: Option<String>,
    /// Whether the go command is served.
    proxy: bool,
    versions: Vec<VersionLine>,
    more_versions: u64,
    sources: Vec<SourceView>,
}

struct VersionLine {
    path: String,
    /// The same, shorter where a key would push everything else aside.
    short: String,
    /// The page of its repository, if that is here.
    href: Option<String>,
    version: String,
    created: String,
}

struct SourceView {
    name: String,
    /// Why it could not be listed.
    error: Option<String>,
    is_listing: bool,
    repos: String,
    when: String,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let mut page = ModulesPage {
        frame: cx.frame(),
        notice: None,
        counters: Vec::new(),
        example: None,
        proxy: cx.app.proxy().is_ok(),
        versions: Vec::new(),
        more_versions: 0,
        sources: Vec::new(),
    };
    let Ok(index) = cx.app.index() else {
        let why = "This node lists no modules.";
        page.notice = Some(Notice::new("The index is switched off.", why));
        return super::render(StatusCode::OK, &page);
    };
    let (frame, now) = (&page.frame, unix_now_ms());
    let newest = FeedQuery {
        clock: Clock::Created,
        limit: VERSIONS,
        ..FeedQuery::default()
    };
    let newest = index.feed(&newest).await.map_err(unreadable)?.entries;
    let status = cx.app.samples.index_status(index).await;
    let mut status = status.map_err(unreadable)?;
    status.sources.truncate(SOURCES);
    let sources = index::sources(cx.app, std::mem::take(&mut status.sources)).await?;
    page.sources = sources.into_iter().map(|s| source_view(s, now)).collect();
    page.counters = counters([
        ("versions in the feed", unsigned(status.versions)),
        ("repositories", unsigned(status.repos)),
        ("tags known", unsigned(status.tags)),
    ]);
    let mut here = newest.iter();
    let here = here.find(|entry| frame.repository_of(&entry.path).is_some());
    page.example = here.map(|entry| format!("{}@{}", entry.path, entry.version));
    page.more_versions = unsigned(status.versions).saturating_sub(newest.len() as u64);
    let versions = newest.into_iter().map(|entry| version_line(entry, frame));
    page.versions = versions.collect();
    super::render(StatusCode::OK, &page)
}

fn version_line(entry: Entry, frame: &Frame) -> VersionLine {
    let repository = frame.repository_of(&entry.path);
    let href = repository.map(|(npub, name)| format!("{}{npub}/{name}.git", frame.root()));
    let short = repository.map_or_else(
        || entry.path.clone(),
        |(npub, _)| entry.path.replacen(npub, &super::short_npub(npub), 1),
    );
    VersionLine {
        short,
        href,
        created: super::when_ms(entry.created),
        path: entry.path,
        version: entry.version,
    }
}

fn source_view(source: IndexSource, now: i64) -> SourceView {
    let IndexSource { status, work } = source;
    let listed = status
        .finished_ms
        .map_or("never listed whole".to_owned(), |at| {
            format!("listed {}", distance(at, now))
        });
    let when = match work.next_due_ms {
        Some(due) if work.state == Some(State::Waiting) => {
            format!("{listed}, again {}", distance(due, now))
        }
        _ => listed,
    };
    let is_listing = work.state == Some(State::Leased);
    SourceView {
        error: work.last_error.filter(|_| !is_listing),
        is_listing,
        name: source_name(status.name),
        repos: super::count(unsigned(status.repos), "repository", "repositories"),
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
