//! The feed of the index as it goes over the wire: lines of JSON.
//!
//! A page is told apart by the moment of the feed's last change and by what was asked, so who has
//! it already is told so by one tiny query.

mod packed;
mod parameters;

use std::sync::Arc;

use grip_db::DbError;
use grip_index::{Change, Changes};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde::Serialize;

use crate::{app::App, body::Body, error::WebError, etag::ETag, respond};

/// Lines of JSON. Go tools read it whatever it is called; a browser should not take it for a page.
const LINES: &str = "application/x-ndjson";
/// Where the next page of changes begins.
const CURSOR: HeaderName = HeaderName::from_static("gripfast-cursor");

/// `GET /index`: versions in the order in which they were first seen.
pub(crate) async fn versions(
    app: &Arc<App>,
    request: &Request<Incoming>,
) -> Result<Response<Body>, WebError> {
    let query = parameters::feed(request.uri().query())?;
    let index = app.index()?;
    let is_packed = packed::is_wanted(request.headers());
    let asked = format!("feed {query:?}");
    if request.headers().contains_key(header::IF_NONE_MATCH) {
        let now = etag(index.stamp().await.map_err(unreadable)?, &asked, is_packed);
        if now.is_known(request.headers()) {
            return Ok(varying(now.unchanged()));
        }
    }
    let page = index.feed(&query).await.map_err(unreadable)?;
    let etag = etag(page.stamp_ns, &asked, is_packed);
    let mut lines = Vec::new();
    page.write_ndjson(&mut lines);
    send(app, lines, is_packed, &etag).await
}

/// `GET /index/changes`: what happened to versions, in the order in which it happened.
pub(crate) async fn changes(
    app: &Arc<App>,
    request: &Request<Incoming>,
) -> Result<Response<Body>, WebError> {
    let (cursor, limit) = parameters::changes(request.uri().query())?;
    let index = app.index()?;
    let is_packed = packed::is_wanted(request.headers());
    let asked = format!("changes {cursor} {limit}");
    let etag = etag(index.stamp().await.map_err(unreadable)?, &asked, is_packed);
    if etag.is_known(request.headers()) {
        return Ok(varying(etag.unchanged()));
    }
    let page = match index.changes(cursor, limit).await.map_err(unreadable)? {
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
    let mut response = send(app, lines, is_packed, &etag).await?;
    response
        .headers_mut()
        .insert(CURSOR, HeaderValue::from(next));
    Ok(response)
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
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
        }
    }
}

/// As the feed writes moments: nine digits after the second.
fn moment(read: Result<Timestamp, jiff::Error>) -> String {
    format!("{:.9}", read.unwrap_or_default())
}

fn etag(stamp: i64, asked: &str, is_packed: bool) -> ETag {
    ETag::of([
        &stamp.to_be_bytes()[..],
        asked.as_bytes(),
        &[u8::from(is_packed)],
    ])
}

async fn send(
    app: &App,
    lines: Vec<u8>,
    is_packed: bool,
    etag: &ETag,
) -> Result<Response<Body>, WebError> {
    let body = match is_packed {
        true => app.blocking("gzip", move || packed::pack(&lines)).await?,
        false => lines.into(),
    };
    let mut response = etag.put_on(respond::typed(StatusCode::OK, LINES, body));
    if is_packed {
        let gzip = HeaderValue::from_static("gzip");
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, gzip);
    }
    Ok(varying(response))
}

fn varying(mut response: Response<Body>) -> Response<Body> {
    let by = HeaderValue::from_static("accept-encoding");
    response.headers_mut().insert(header::VARY, by);
    response
}

fn unreadable(error: DbError) -> WebError {
    WebError::database("the index cannot be read", error)
}
