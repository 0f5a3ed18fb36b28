//! Atom feeds of commits and tags.

use askama::Template;
use grip_git::CommitDetails;
use grip_types::Oid;
use http::StatusCode;

use super::{Visit, encode_path, log};
use crate::{
    etag::ETag,
    request_context::{HttpResult, RequestContext},
    respond,
};

/// Entries of a feed.
const ENTRIES: usize = 30;

struct Entry {
    title: String,
    href: String,
    updated: String,
    author: String,
    text: String,
}

#[derive(Template)]
#[template(path = "feed.xml")]
struct Feed {
    title: String,
    itself: String,
    page: String,
    updated: String,
    entries: Vec<Entry>,
}

pub(crate) async fn commits(cx: &RequestContext<'_>) -> HttpResult {
    let visit = Visit::open(cx, "history").await?;
    let commits = match visit.head() {
        Some(head) => {
            let history = visit.history(vec![head.commit]).await?;
            history.iter().take(ENTRIES).copied().collect()
        }
        None => Vec::new(),
    };
    let details = log::details(&visit, commits).await?;
    let entries = details.iter().map(|details| (details.subject(), details));
    let entries: Vec<_> = entries.map(|(title, of)| (title.to_owned(), of)).collect();
    render(&visit, "commits", "log", &entries, |details| {
        format!("commit/{}", details.oid)
    })
}

pub(crate) async fn tags(cx: &RequestContext<'_>) -> HttpResult {
    let visit = Visit::open(cx, "refs").await?;
    let tags: Vec<(String, Oid)> = visit
        .refs
        .iter()
        .filter(|found| found.name.is_tag())
        .map(|found| {
            let commit = found.peeled.unwrap_or(found.oid);
            (found.name.short().to_owned(), commit)
        })
        .take(1000)
        .collect();
    let commits = tags.iter().map(|(_, commit)| *commit).collect();
    let details = log::details(&visit, commits).await?;
    let find = |oid: &Oid| details.iter().find(|details| details.oid == *oid);
    let found = tags.iter();
    let found = found.filter_map(|(name, oid)| Some((name.clone(), find(oid)?)));
    let mut entries: Vec<_> = found.collect();
    entries.sort_by_key(|(_, details)| std::cmp::Reverse(details.committer.at_ms));
    entries.truncate(ENTRIES);
    let names: std::collections::HashMap<Oid, String> = entries
        .iter()
        .map(|(name, details)| (details.oid, encode_path(name)))
        .collect();
    render(&visit, "tags", "refs", &entries, |details| {
        format!("tree/{}", names[&details.oid])
    })
}

fn render(
    visit: &Visit<'_>,
    what: &str,
    page: &str,
    entries: &[(String, &CommitDetails)],
    href: impl Fn(&CommitDetails) -> String,
) -> HttpResult {
    let origin = visit.cx.settings.service.http_url();
    let root = visit.cx.frame().root().to_owned();
    let below = visit.header.base.strip_prefix(&*root);
    let base = format!("{origin}/{}", below.unwrap_or_default());
    let entry = |(title, details): &(String, &CommitDetails)| Entry {
        title: plain(title, 200),
        href: format!("{base}/{}", href(details)),
        updated: rfc3339(details.committer.at_ms),
        author: plain(&details.author.name, 100),
        text: plain(&details.message, 5000),
    };
    let newest = entries.iter().map(|(_, details)| details.committer.at_ms);
    let feed = Feed {
        title: plain(&format!("{}: {what}", visit.header.name), 200),
        itself: format!("{origin}{}", visit.cx.head.uri.path()),
        page: format!("{base}/{page}"),
        updated: rfc3339(newest.max().unwrap_or(0)),
        entries: entries.iter().map(entry).collect(),
    };
    let text = feed
        .render()
        .map_err(|e| crate::error::WebError::internal("a feed cannot be rendered", e))?;
    let etag = ETag::of([text.as_bytes()]);
    if etag.is_known(visit.cx.headers()) {
        return Ok(etag.unchanged());
    }
    let kind = "application/atom+xml; charset=utf-8";
    Ok(etag.put_on(respond::typed(StatusCode::OK, kind, text)))
}

/// Text without what XML cannot hold, however it is written.
fn plain(text: &str, max_chars: usize) -> String {
    let fits = |c: &char| matches!(*c, '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    text.chars().filter(fits).take(max_chars).collect()
}

fn rfc3339(unix_ms: i64) -> String {
    let time = jiff::Timestamp::from_second(unix_ms / 1000).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
