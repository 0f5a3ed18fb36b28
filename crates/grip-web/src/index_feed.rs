//! The feed of module versions as lines of JSON.
//!
//! The tag of a page comes from the moment of the feed's last change and from the query, so that a
//! client which has the page already costs one tiny statement.

mod gzip;
mod parameters;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use grip_index::{Change, Changes, FeedQuery, Reader};
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    api::index::unreadable,
    app::App,
    body::Body,
    error::WebError,
    etag::ETag,
    negotiation, private,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
    restricted, sumdb,
};

/// Lines of JSON. Go tools do not look at the type; a browser should not take it for a page.
const LINES: &str = "application/x-ndjson";
/// The head of the checksum database's log: a signed note, in base64.
const LOG_HEAD: HeaderName = HeaderName::from_static("gripfast-log-head");
/// Where the next page of changes begins.
const CURSOR: HeaderName = HeaderName::from_static("gripfast-cursor");

/// `GET /index`: versions in the order in which they were first seen.
pub(crate) async fn versions(cx: &RequestContext<'_>) -> HttpResult {
    let reader = restricted::reader(cx);
    let query = FeedQuery {
        reader,
        ..parameters::feed(cx.query())?
    };
    let index = cx.app.index()?;
    let is_gzip = negotiation::wants_gzip(cx.headers());
    let asked = format!("feed {query:?}");
    if cx.headers().contains_key(header::IF_NONE_MATCH) {
        let now = etag(index.stamp().await.map_err(unreadable)?, &asked, is_gzip);
        if now.is_known(cx.headers()) {
            return Ok(kept_apart(varying(now.unchanged()), reader));
        }
    }
    let page = index.feed(&query).await.map_err(unreadable)?;
    let etag = etag(page.stamp_ns, &asked, is_gzip);
    let mut lines = Vec::new();
    page.write_ndjson(&mut lines);
    let response = send(cx.app, lines, is_gzip, &etag).await?;
    Ok(kept_apart(response, reader))
}

/// Keeps answers with restricted repositories out of caches that others read.
fn kept_apart(mut response: Response<Body>, reader: Reader) -> Response<Body> {
    if reader == Reader::All {
        private::keep_out_of_caches(response.headers_mut());
    }
    response
}

/// `GET /index/changes`: what happened to versions, in the order in which it happened.
pub(crate) async fn changes(cx: &RequestContext<'_>) -> HttpResult {
    let (cursor, limit) = parameters::changes(cx.query())?;
    let index = cx.app.index()?;
    let is_gzip = negotiation::wants_gzip(cx.headers());
    let reader = restricted::reader(cx);
    // A log that grew is news to who follows it, whether or not the feed has changed.
    let log_head = sumdb::head(cx.app).await;
    let asked = format!("changes {cursor} {limit} {reader:?} {log_head:?}");
    let etag = etag(index.stamp().await.map_err(unreadable)?, &asked, is_gzip);
    if etag.is_known(cx.headers()) {
        return Ok(kept_apart(varying(etag.unchanged()), reader));
    }
    let page = index.changes(cursor, limit, reader).await;
    let page = match page.map_err(unreadable)? {
        Changes::Page(page) => page,
        Changes::Forgotten { up_to_ns } => return Err(WebError::Forgotten { up_to_ns }),
        _ => return Err(WebError::NoSuchPage),
    };
    let next = page.last().map_or(cursor, |change| change.at_ns);
    let mut lines = Vec::new();
    for change in page {
        serde_json::to_writer(&mut lines, &Line::from(change))
            .map_err(|e| WebError::internal("a change cannot be written as JSON", e))?;
        lines.push(b'\n');
    }
    let mut response = send(cx.app, lines, is_gzip, &etag).await?;
    response
        .headers_mut()
        .insert(CURSOR, HeaderValue::from(next));
    if let Some(note) = log_head {
        let note = HeaderValue::try_from(STANDARD.encode(&*note));
        let note = note.map_err(|e| WebError::internal("a head cannot be sent", e))?;
        response.headers_mut().insert(LOG_HEAD, note);
    }
    Ok(kept_apart(response, reader))
}

/// One line of the feed, as `go` tools know it from index.golang.org.
#[derive(JsonSchema)]
#[schemars(rename = "ModuleVersion", rename_all = "PascalCase")]
#[expect(
    dead_code,
    reason = "the index writes these lines itself; this says what is in them"
)]
pub(crate) struct Version {
    path: String,
    version: String,
    /// When it was first seen here.
    timestamp: String,
    /// The date of the tag.
    created: String,
}

/// One change of the feed.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "PascalCase")]
#[schemars(rename = "ModuleChange")]
pub(crate) struct Line {
    /// A text, because it is larger than the numbers of JavaScript are exact.
    cursor: String,
    op: grip_index::Op,
    path: String,
    version: String,
    timestamp: String,
    created: String,
    repository: String,
    tag: String,
    commit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    /// What the checksum database has logged, and the proxy serves, instead of this commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    logged: Option<String>,
}

impl From<Change> for Line {
    fn from(change: Change) -> Self {
        Self {
            cursor: change.at_ns.to_string(),
            op: change.op,
            path: change.path,
            version: change.version,
            timestamp: moment(Timestamp::from_nanosecond(change.at_ns.into())),
            created: moment(Timestamp::from_millisecond(change.created_ms)),
            repository: change.repo,
            tag: change.tag,
            commit: change.commit,
            previous: change.previous,
            logged: change.logged,
        }
    }
}

/// As the feed writes moments: nine digits after the second.
fn moment(read: Result<Timestamp, jiff::Error>) -> String {
    format!("{:.9}", read.unwrap_or_default())
}

fn etag(stamp: i64, asked: &str, is_gzip: bool) -> ETag {
    ETag::of([
        &stamp.to_be_bytes()[..],
        asked.as_bytes(),
        &[u8::from(is_gzip)],
    ])
}

async fn send(app: &App, lines: Vec<u8>, is_gzip: bool, etag: &ETag) -> HttpResult {
    let body = if is_gzip {
        app.blocking("gzip", move || gzip::compress(&lines)).await?
    } else {
        lines.into()
    };
    let mut response = etag.put_on(respond::typed(StatusCode::OK, LINES, body));
    if is_gzip {
        response = response.with(header::CONTENT_ENCODING, "gzip");
    }
    Ok(varying(response))
}

fn varying(response: Response<Body>) -> Response<Body> {
    response.with(header::VARY, "accept-encoding")
}
