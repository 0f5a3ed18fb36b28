//! Takes calls, notes them, and answers within limits and as the script says.

use std::{
    convert::Infallible,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    sync::Arc,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Request, Response,
    body::{Frame, Incoming},
    header,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Behaviour, Seen, Shared, git_server, graphql,
    limits::{Entry, Pays},
    listing::PageQuery,
    routes::{self, Call, Made},
};

pub(super) const JSON: &str = "application/json; charset=utf-8";
const RAW: &str = "application/vnd.github.raw+json; charset=utf-8";
const UNICORN: &str = "<!doctype html><title>Unicorn! &middot; GitHub</title>";

pub(super) type Headers = Vec<(String, String)>;
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// An answer before it is sent.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: Bytes,
    pub(super) breaks_off: bool,
}

pub(super) async fn respond(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = body.unwrap_or_default();
    let headers = &head.headers;
    if git_server::is_for_git(head.uri.path()) {
        return git_server::respond(&shared, head, body).await;
    }
    let path = head.uri.path();
    let path = path.strip_prefix(shared.base.as_str()).unwrap_or(path);
    let operation = graphql::operation(path, &body);
    let path = operation.as_deref().unwrap_or(path);
    let query = head.uri.query().unwrap_or_default();
    let presented = credential(headers);
    let token = presented.map(|text| shared.books().token(text));
    let under_way = shared.record.arrived(|in_flight| Seen {
        at: Instant::now(),
        method: head.method.to_string(),
        path: path.to_owned(),
        query: query.to_owned(),
        token: token.flatten(),
        conditional: headers.contains_key(header::IF_NONE_MATCH),
        status: 0,
        in_flight,
    });
    let (entry, latency) = {
        let mut books = shared.books();
        let pays = if operation.is_some() {
            Pays::Points
        } else {
            Pays::Calls
        };
        let entry = books.enter(token, under_way.in_flight, pays);
        (entry, books.limits.latency)
    };
    tokio::time::sleep(latency).await;
    let call = Call {
        path,
        query,
        wants_raw: text(headers, header::ACCEPT).contains("raw"),
        has_token: token.flatten().is_some(),
        body: &body,
        root: &shared.root(),
    };
    let unchanged = text(headers, header::IF_NONE_MATCH);
    let reply = match refused(&entry, &shared, token.flatten()) {
        Some(reply) => reply,
        None => passed(&shared, &call, token.flatten(), unchanged).await,
    };
    under_way.update(|seen| seen.status = reply.status);
    drop(under_way);
    sent(reply)
}

/// What a caller calls himself; none without a word about it.
fn credential(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let bare = ["Bearer ", "bearer ", "token "]
        .iter()
        .find_map(|kind| text.strip_prefix(kind));
    Some(bare.unwrap_or(text))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    let value = headers.get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// The answer to a call that did not get in.
fn refused(entry: &Entry, shared: &Shared, token: Option<usize>) -> Option<Reply> {
    let budget = || shared.books().headers(token, Pays::Calls);
    match entry {
        Entry::Passed => None,
        Entry::OutOfPoints => {
            let mut reply = json_reply(&graphql::error("RATE_LIMITED", "API rate limit exceeded"));
            reply
                .headers
                .extend(shared.books().headers(token, Pays::Points));
            Some(reply)
        }
        Entry::BadGateway => Some(page(502)),
        Entry::Unauthorised => Some(message(401, "Bad credentials", Vec::new())),
        Entry::Exhausted => Some(message(
            403,
            "API rate limit exceeded for user ID 1.",
            budget(),
        )),
        Entry::Secondary(status) => {
            let mut headers = budget();
            let seconds = shared.books().limits.retry_after;
            headers.push(("retry-after".into(), seconds.to_string()));
            let text = "You have exceeded a secondary rate limit. Please wait a few minutes.";
            Some(message(*status, text, headers))
        }
    }
}

/// The answer to a call that got in, as the script says.
async fn passed(shared: &Shared, call: &Call<'_>, token: Option<usize>, unchanged: &str) -> Reply {
    let behaviour = shared.scripts.next(call.path);
    match &behaviour {
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Hold(gate) => gate.pass().await,
        Behaviour::Html => return page(200),
        Behaviour::Bare {
            code,
            headers,
            body,
        } => return plain(*code, headers.clone(), body),
        Behaviour::Status {
            code,
            headers,
            body,
        } => {
            let mut all = shared.books().headers(token, pays(call));
            all.extend(headers.iter().cloned());
            return plain(*code, all, body);
        }
        _ => {}
    }
    let mut reply = served(shared, call, &behaviour);
    let etag = etag(&reply);
    if let Behaviour::ThenUntag { repo, tag } = &behaviour {
        shared.repositories().untag(repo, tag);
    }
    if reply.status == 200 && etag == unchanged {
        shared.books().refund(token);
        reply = plain(304, Vec::new(), "");
    }
    if matches!(reply.status, 200 | 304) {
        reply.headers.push(("etag".into(), etag));
    }
    reply
        .headers
        .extend(shared.repositories().activity.headers(call.path));
    reply
        .headers
        .extend(shared.books().headers(token, pays(call)));
    match behaviour {
        Behaviour::TruncatedJson => reply.body.truncate(reply.body.len() / 2),
        Behaviour::BreakOff => reply.breaks_off = true,
        _ => {}
    }
    reply
}

fn pays(call: &Call<'_>) -> Pays {
    if call.path.starts_with(graphql::PATH) {
        Pays::Points
    } else {
        Pays::Calls
    }
}

fn served(shared: &Shared, call: &Call<'_>, behaviour: &Behaviour) -> Reply {
    let repositories = shared.repositories();
    if call.path.starts_with(graphql::PATH) {
        return json_reply(&graphql::answer(&repositories, call));
    }
    let asked = PageQuery::read(call.query);
    let path = match behaviour {
        Behaviour::Instead(path) => path,
        _ => call.path,
    };
    let query = match behaviour {
        Behaviour::EndlessPages => format!("per_page={}", asked.per_page),
        _ => call.query.to_owned(),
    };
    let made = routes::answer(
        &repositories,
        &Call {
            path,
            query: &query,
            ..*call
        },
    );
    let endless = match path {
        "/repositories" => format!("since={}", asked.since + 1_000_000),
        _ => routes::next_page(call.query, &asked),
    };
    let here = format!("{}{}", call.root, call.path);
    let link = |query: &str| Some(format!("{here}?{query}"));
    match made {
        Made::Page(items, next) => {
            let next = match behaviour {
                Behaviour::EndlessPages => link(&endless),
                Behaviour::SamePage => link(call.query),
                Behaviour::NextElsewhere(url) => Some(url.clone()),
                _ => next.as_deref().and_then(link),
            };
            with_link(json_reply(&Value::Array(items)), next)
        }
        Made::Json(value) => json_reply(&value),
        Made::Raw(bytes) => Reply {
            status: 200,
            headers: kind(RAW),
            body: bytes,
            breaks_off: false,
        },
        Made::Moved(to) => {
            let headers = vec![("location".into(), to)];
            message(301, "Moved Permanently", headers)
        }
        Made::Refused(status, text) => message(status, &text, Vec::new()),
    }
}

fn with_link(mut reply: Reply, next: Option<String>) -> Reply {
    if let Some(next) = next {
        let link = format!("<{next}>; rel=\"next\", <{next}>; rel=\"last\"");
        reply.headers.push(("link".into(), link));
    }
    reply
}

fn etag(reply: &Reply) -> String {
    let mut hasher = DefaultHasher::new();
    reply.body.hash(&mut hasher);
    format!("W/\"{:016x}\"", hasher.finish())
}

fn kind(kind: &str) -> Headers {
    vec![("content-type".into(), kind.into())]
}

fn json_reply(value: &Value) -> Reply {
    plain(200, kind(JSON), &value.to_string())
}

fn message(status: u16, text: &str, mut headers: Headers) -> Reply {
    headers.extend(kind(JSON));
    plain(status, headers, &json!({ "message": text }).to_string())
}

fn page(status: u16) -> Reply {
    plain(status, kind("text/html; charset=utf-8"), UNICORN)
}

pub(super) fn plain(status: u16, headers: Headers, body: &str) -> Reply {
    Reply {
        status,
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
        breaks_off: false,
    }
}

pub(super) fn sent(reply: Reply) -> Response<Body> {
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let body = if reply.breaks_off {
        broken(reply.body)
    } else {
        let never = |impossible: Infallible| match impossible {};
        Full::from(reply.body).map_err(never).boxed_unsync()
    };
    response.body(body).expect("tests name valid headers")
}

/// Half of the body, then a closed connection.
fn broken(bytes: Bytes) -> Body {
    let start = bytes.slice(..bytes.len() / 2);
    let end = stream::once(async {
        // The start must leave before the error makes the server drop what it has not written.
        tokio::task::yield_now().await;
        Err(io::Error::other("told to break off"))
    });
    let pieces = stream::iter([Ok(start)]).chain(end);
    StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync()
}
