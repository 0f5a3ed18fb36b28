//! The page of the module index.

use std::collections::HashMap;

use askama::Template;
use grip_go::{ModulePath, Version, go_mod::Notices};
use grip_index::{Clock, Entry, FeedQuery, Reader};
use grip_queue::State;
use http::StatusCode;

use super::{CounterView, Frame, Notice, Now, counters, unsigned};
use crate::{
    api::index::{self, unreadable},
    api_types::{IndexSource, SumDbView},
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
    restricted,
};

/// How much of each list is shown.
const VERSIONS: usize = 20;
const SOURCES: usize = 50;
const MOVED: usize = 20;

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
    /// The checksum database, where there is one.
    sumdb: Option<SumDbView>,
    versions: Vec<VersionView>,
    more_versions: u64,
    sources: Vec<IndexSource>,
    now: Now,
}

/// A listed version, with what its author says of it.
struct VersionView {
    entry: Entry,
    /// The author's reason to take it back.
    retracted: Option<String>,
    deprecated: Option<String>,
}

impl ModulesPage {
    /// A path, shorter where a key would push everything else aside.
    fn short(&self, path: &str) -> String {
        match self.frame.repository_of(path) {
            Some((npub, _)) => path.replacen(npub, &super::short_npub(npub), 1),
            None => path.to_owned(),
        }
    }

    /// The page of the repository of a module, if that is here.
    fn href(&self, path: &str) -> Option<String> {
        let (npub, name) = self.frame.repository_of(path)?;
        Some(format!("{}{npub}/{name}.git", self.frame.root()))
    }

    fn short_oid<'a>(&self, oid: &'a str) -> &'a str {
        oid.get(..10).unwrap_or(oid)
    }

    fn is_listing(&self, source: &IndexSource) -> bool {
        source.work.state == Some(State::Leased)
    }

    /// When a source was listed, and when it is again.
    fn listed(&self, source: &IndexSource) -> String {
        let finished = source.status.finished_ms;
        let listed = finished.map_or("never listed whole".to_owned(), |at| {
            format!("listed {}", self.now.distance(&at))
        });
        match source.work.next_due_ms {
            Some(due) if source.work.state == Some(State::Waiting) => {
                format!("{listed}, again {}", self.now.distance(&due))
            }
            _ => listed,
        }
    }

    fn repositories(&self, source: &IndexSource) -> String {
        super::count(unsigned(source.status.repos), "repository", "repositories")
    }

    /// The repositories on this node, and on others that share its database, have names of their
    /// own.
    fn source(&self, name: &str) -> String {
        match name.strip_prefix("hosted") {
            Some("") => "this node".to_owned(),
            Some(rest) => match rest.strip_prefix('@') {
                Some(node) => format!("node {node}"),
                None => name.to_owned(),
            },
            None => name.to_owned(),
        }
    }
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let mut page = ModulesPage {
        frame: cx.frame().about(
            "Modules",
            "Versions of Go modules that tags of repositories prove",
        ),
        notice: None,
        counters: Vec::new(),
        example: None,
        proxy: cx.app.proxy().is_ok(),
        sumdb: None,
        versions: Vec::new(),
        more_versions: 0,
        sources: Vec::new(),
        now: Now::new(),
    };
    let Ok(index) = cx.app.index() else {
        let why = "This node lists no modules.";
        page.notice = Some(Notice::new("The index is switched off.", why));
        return super::render(StatusCode::OK, &page);
    };
    let newest = FeedQuery {
        clock: Clock::Created,
        limit: VERSIONS,
        reader: restricted::reader(cx),
        ..FeedQuery::default()
    };
    let newest = index.feed(&newest).await.map_err(unreadable)?.entries;
    let status = cx.app.samples.index_status(index).await;
    let reader = restricted::reader(cx);
    let mut status = status.map_err(unreadable)?.for_reader(reader);
    status.sources.truncate(SOURCES);
    page.sources = index::sources(cx.app, std::mem::take(&mut status.sources)).await?;
    let sumdb = index::sumdb_view(cx, MOVED).await;
    page.sumdb = sumdb.inspect_err(WebError::log).unwrap_or_default();
    page.counters = counters([
        ("versions in the feed", unsigned(status.versions)),
        ("repositories", unsigned(status.repos)),
        ("tags known", unsigned(status.tags)),
    ]);
    let mut here = newest.iter();
    let here = here.find(|entry| page.frame.repository_of(&entry.path).is_some());
    page.example = here.map(|entry| format!("{}@{}", entry.path, entry.version));
    page.more_versions = unsigned(status.versions).saturating_sub(newest.len() as u64);
    page.versions = with_notices(cx.app, newest, reader).await;
    super::render(StatusCode::OK, &page)
}

/// Adds what authors say of the modules of this node. A page without it is better than none.
async fn with_notices(app: &App, entries: Vec<Entry>, reader: Reader) -> Vec<VersionView> {
    let mut known: HashMap<String, Notices> = HashMap::new();
    let mut views = Vec::with_capacity(entries.len());
    for entry in entries {
        if !known.contains_key(&entry.path) {
            let read = notices(app, &entry.path, reader).await;
            known.insert(entry.path.clone(), read.unwrap_or_default());
        }
        let notices = &known[&entry.path];
        let version = Version::parse(&entry.version).ok();
        let retracted = version.and_then(|version| notices.retraction(&version).map(str::to_owned));
        views.push(VersionView {
            retracted,
            deprecated: notices.deprecated.clone(),
            entry,
        });
    }
    views
}

async fn notices(app: &App, path: &str, reader: Reader) -> Option<Notices> {
    let path = ModulePath::parse(path).ok()?;
    app.proxy().ok()?.notices(&path, reader).await.ok()
}
