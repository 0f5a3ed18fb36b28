//! Small responses that do not wait: health, readiness, version, metrics.

use std::collections::BTreeMap;

use grip_grasp::Grasp;
use http::{Response, StatusCode, header};
use serde_json::json;

use crate::{
    Readiness, SyncHandle,
    api::types::{ReadyAnswer, VersionFacts},
    body::Body,
    error::WebError,
    metrics::unix_now_ms,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
    restricted,
};

/// Parts that something may be wrong with while the node runs, as metrics name them.
const PARTS: [&str; 6] = [
    "database",
    "disk",
    "object_store",
    "redis",
    "repositories",
    "sync",
];
/// Damaged repositories that are named.
const NAMED_DAMAGED: usize = 5;
/// How long the next attempt may be overdue while none is under way.
const STALLED_MINUTES: i64 = 10;

/// The process lives.
pub(crate) fn health(_: &RequestContext<'_>) -> HttpResult {
    Ok(uncached(respond::text(StatusCode::OK, "ok\n")))
}

/// Whether requests are served, and if not, what is missing.
pub(crate) fn ready(cx: &RequestContext<'_>) -> HttpResult {
    let web = &cx.app.web;
    // The stop is known here before the accept loop had its turn to say so.
    if cx.app.is_draining() {
        web.readiness.drain();
    }
    let Condition {
        missing,
        mut degraded,
    } = Condition::of(&web.readiness, &web.sync, &web.grasp);
    let (ready, status) = match missing.len() {
        0 => (true, StatusCode::OK),
        _ => (false, StatusCode::SERVICE_UNAVAILABLE),
    };
    if cx.settings.private.is_some() && !cx.is_operator() {
        degraded.remove("repositories");
        // It names a repository.
        if let Some(why) = degraded.get_mut("sync") {
            *why = "nothing is fetched, and data has been due for minutes".to_owned();
        }
    }
    let answer = ReadyAnswer {
        ready,
        missing,
        degraded,
    };
    respond::json(status, &answer).map(uncached)
}

/// What stops the node, and what hinders it; part by part, each with its reason.
pub(crate) struct Condition {
    pub(crate) missing: BTreeMap<String, String>,
    /// Parts that work, but not as they were meant to.
    pub(crate) degraded: BTreeMap<String, String>,
}

impl Condition {
    pub(crate) fn of(readiness: &Readiness, sync: &SyncHandle, grasp: &Grasp) -> Self {
        let named = |(part, why): (&'static str, String)| (part.to_owned(), why);
        let redis = sync.backend().and_then(|backend| backend.warning());
        let found = [
            ("redis", redis),
            ("repositories", damaged(grasp)),
            ("sync", stalled(sync, grasp)),
        ];
        let found = found
            .into_iter()
            .filter_map(|(part, why)| Some((part, why?)));
        let noted = readiness.degraded().into_iter();
        Self {
            missing: readiness.missing().into_iter().map(named).collect(),
            degraded: noted.chain(found).map(named).collect(),
        }
    }

    /// The parts that are watched, each with whether something is wrong with it.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let has = |part| self.missing.contains_key(part) || self.degraded.contains_key(part);
        PARTS.into_iter().map(move |part| (part, has(part)))
    }
}

/// Says for how long data should have been looked for, where nothing is.
fn stalled(sync: &SyncHandle, grasp: &Grasp) -> Option<String> {
    let report = sync.get()?;
    if report.totals().running > 0 {
        return None;
    }
    let (identifier, next) = grasp.sync_queue(1).pop()?;
    let minutes = (unix_now_ms() - next.next_attempt.get()) / 60_000;
    (minutes >= STALLED_MINUTES).then(|| {
        format!(
            "nothing is fetched, and the data of {identifier} has been due for {minutes} minutes; \
             `gripfast sync status` shows what is waited for"
        )
    })
}

/// The damaged repositories, the first few by name.
fn damaged(grasp: &Grasp) -> Option<String> {
    let damaged = grasp.damaged();
    let named = damaged.iter().take(NAMED_DAMAGED);
    let named: Vec<_> = named.map(|(addr, why)| format!("{addr} ({why})")).collect();
    let more = damaged.len() - named.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!named.is_empty()).then(|| {
        let named = named.join(", ");
        format!("damaged: {named}{more}; run `gripfast check --full --repair`")
    })
}

pub(crate) fn version(cx: &RequestContext<'_>) -> HttpResult {
    let build = &cx.app.web.build;
    let (version, commit) = (build.version, build.commit);
    let answer = VersionFacts {
        name: "gripfast".to_owned(),
        version: version.to_owned(),
        commit: commit.map(str::to_owned),
    };
    respond::json(StatusCode::OK, &answer).map(uncached)
}

/// The metrics: as they are for this machine, at most a second old for everybody else. What must be
/// read from the database is read for the next scrape.
pub(crate) async fn metrics(cx: &RequestContext<'_>) -> HttpResult {
    if !cx.settings.metrics {
        return Err(WebError::NoSuchPage);
    }
    cx.app.samples.scraped().await;
    let reader = restricted::reader(cx);
    let text = if cx.client.exempt {
        cx.app.metrics.render(reader)
    } else {
        cx.app.metrics.recent(reader)
    };
    let text = text.map_err(|e| WebError::internal("metrics cannot be written", e))?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(uncached(respond::typed(StatusCode::OK, kind, text)))
}

pub(crate) fn icon(_: &RequestContext<'_>) -> HttpResult {
    let svg = include_str!("../templates/icon.svg");
    let response = respond::typed(StatusCode::OK, "image/svg+xml", svg);
    Ok(response.with(header::CACHE_CONTROL, "public, max-age=86400"))
}

/// The key of the service under its own name (NIP-05, E-6).
pub(crate) fn nip05(cx: &RequestContext<'_>) -> HttpResult {
    let key = cx.settings.node.own_key;
    let is_root = cx.settings.service.base().is_empty();
    let key = key.filter(|_| is_root).ok_or(WebError::NoSuchPage)?;
    let names = json!({ "names": { "_": key.to_hex() } });
    respond::json(StatusCode::OK, &names)
}

/// Crawlers may read the pages of branches and tags. Git and API paths are of no use to them, and of
/// each commit there are many pages that cost a lot.
pub(crate) fn robots(_: &RequestContext<'_>) -> HttpResult {
    let costly = "blame grep archive compare commit history raw";
    let costly = costly
        .split(' ')
        .map(|page| format!("Disallow: /*/{page}/\n"));
    let git =
        "User-agent: *\nDisallow: /api/\nDisallow: /live/\nDisallow: /*/info/\nDisallow: /*/git-\n";
    let text = format!("{git}{}", costly.collect::<String>());
    Ok(respond::text(StatusCode::OK, text))
}

fn uncached(response: Response<Body>) -> Response<Body> {
    response.with(header::CACHE_CONTROL, "no-store")
}
