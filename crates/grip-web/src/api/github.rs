//! What is known of the pushes on GitHub, and what the operator may order about it.
//!
//! Invariant: what is not public on GitHub is shown to nobody but the operator.

mod order;
mod parameters;
mod pushes;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_db::DbError;
use grip_ingest::{Ingest, Key, Stored};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use self::{
    order::order,
    pushes::{Wish, pushes},
};
use crate::{
    app::App,
    body::Body,
    error::{WatchError, WebError},
    etag::ETag,
    query::decoded,
    respond,
    route::GitHub,
};

/// What a picture may do: nothing at all, whatever is in it.
const PICTURE_POLICY: &str = "default-src 'none'; sandbox";

/// Answers all that is only read. `is_operator`: sees also what is not public. Boxed, so that no
/// other request has to find room for it.
pub(crate) fn tell<'a>(
    app: &'a Arc<App>,
    what: GitHub<'a>,
    request: &'a Request<Incoming>,
    is_operator: bool,
) -> BoxFuture<'a, Result<Response<Body>, WebError>> {
    Box::pin(answer(app, what, request, is_operator))
}

async fn answer(
    app: &Arc<App>,
    what: GitHub<'_>,
    request: &Request<Incoming>,
    is_operator: bool,
) -> Result<Response<Body>, WebError> {
    let query = request.uri().query();
    let headers = request.headers();
    let ingest = &app.watch()?.ingest;
    match what {
        GitHub::Events => {
            let answer = events(app, query, is_operator).await?;
            tagged(headers, &answer)
        }
        GitHub::User(name) => {
            let user = person(ingest, &decoded(name, "the person")?).await?;
            tagged(headers, &shown(user, parameters::raw(query)?))
        }
        GitHub::Repository(name) => {
            let name = decoded(name, "the repository")?;
            let repository = repository(ingest, &name, is_operator).await?;
            tagged(headers, &shown(repository, parameters::raw(query)?))
        }
        GitHub::Avatar(user) => avatar(app, user, headers).await,
        GitHub::Stats => {
            let stats = app.sampled().watch_stats(ingest).await;
            tagged(headers, &stats.map_err(unreadable)?)
        }
        GitHub::Status => {
            let status = app.sampled().watch_status(ingest).await;
            tagged(headers, &status.map_err(unreadable)?)
        }
        GitHub::Gaps => {
            let (only_open, after, limit) = parameters::gaps(query)?;
            let gaps = ingest.gaps(only_open, after, limit).await;
            let gaps = gaps.map_err(unreadable)?;
            let is_full = gaps.len() == limit;
            let next = gaps.last().filter(|_| is_full).map(|gap| gap.id);
            tagged(headers, &json!({ "gaps": gaps, "next": next }))
        }
        _ => Err(WatchError::Nothing.into()),
    }
}

async fn events(app: &App, query: Option<&str>, is_operator: bool) -> Result<Value, WebError> {
    let asked = parameters::events(query)?;
    let ingest = &app.watch()?.ingest;
    let mut wish = Wish {
        is_operator,
        ..asked.wish
    };
    if let Some(name) = &asked.repository {
        wish.query.repository = Some(match number(name) {
            Some(id) => id,
            None => id_of(&repository(ingest, name, is_operator).await?),
        });
    }
    if let Some(name) = &asked.actor {
        wish.query.actor = Some(match number(name) {
            Some(id) => id,
            None => id_of(&person(ingest, name).await?),
        });
    }
    let page = pushes(ingest, wish).await.map_err(unreadable)?;
    let lines: Vec<_> = page
        .pushes
        .into_iter()
        .map(|push| pushes::line(push, asked.raw))
        .collect();
    let next = page.next.as_ref().map(parameters::cursor);
    Ok(json!({ "events": lines, "next": next }))
}

/// A repository by its number or by `owner/name`, as far as the asker may know of it.
async fn repository(ingest: &Ingest, name: &str, is_operator: bool) -> Result<Stored, WebError> {
    let unknown = WatchError::Unknown { what: "repository" };
    let key = match number(name) {
        Some(id) => Key::Id(id),
        None if is_full_name(name) => Key::Name(name.to_owned()),
        None => return Err(unknown.into()),
    };
    let found = ingest.repository(&key).await.map_err(unreadable)?;
    let found = found.filter(|found| is_operator || is_public(found));
    found.ok_or(unknown.into())
}

/// What is not said to be public is not.
fn is_public(repository: &Stored) -> bool {
    let says = |column| repository.fields.get(column);
    let visibility = says("visibility").and_then(Value::as_str);
    says("private") == Some(&Value::Bool(false)) && visibility.is_none_or(|how| how == "public")
}

/// A person by number or login. A login may be a number, too: then the number goes first.
async fn person(ingest: &Ingest, name: &str) -> Result<Stored, WebError> {
    let keys = [
        number(name).map(Key::Id),
        is_name(name).then(|| Key::Name(name.to_owned())),
    ];
    for key in keys.into_iter().flatten() {
        if let Some(found) = ingest.user(&key).await.map_err(unreadable)? {
            return Ok(found);
        }
    }
    Err(WatchError::Unknown { what: "person" }.into())
}

fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.[]".contains(c);
    (1..=128).contains(&name.len()) && name.chars().all(is_plain)
}

fn is_full_name(name: &str) -> bool {
    let parts = name.split_once('/');
    parts.is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}

fn id_of(stored: &Stored) -> i64 {
    let id = stored.fields.get("id").and_then(Value::as_i64);
    id.unwrap_or_default()
}

/// A person or a repository for programs.
fn shown(stored: Stored, with_raw: bool) -> Value {
    let mut shown = stored.fields;
    shown.insert("fetched_at".into(), stored.fetched_at.into());
    shown.insert("created_at".into(), stored.created_at.into());
    shown.insert("updated_at".into(), stored.updated_at.into());
    shown.insert("unfit".into(), stored.unfit.into());
    if with_raw {
        let raw = serde_json::from_str(&stored.raw).unwrap_or(Value::Null);
        shown.insert("raw".into(), raw);
    }
    Value::Object(shown)
}

async fn avatar(app: &App, user: &str, headers: &HeaderMap) -> Result<Response<Body>, WebError> {
    let (avatars, user) = (app.watch()?.avatars.as_ref(), number(user));
    let (Some(avatars), Some(user)) = (avatars, user) else {
        return Err(WatchError::NoPicture.into());
    };
    let found = avatars.picture(user).await;
    let found = found.map_err(|e| WebError::internal("a picture cannot be shown", e))?;
    let picture = found.ok_or(WatchError::NoPicture)?;
    let etag = ETag::named(&picture.digest);
    if etag.is_known(headers) {
        return Ok(etag.unchanged());
    }
    let media_type = picture.kind.media_type();
    let mut response = etag.put_on(respond::typed(StatusCode::OK, media_type, picture.bytes));
    let policy = HeaderValue::from_static(PICTURE_POLICY);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// An answer, or that the client has it.
fn tagged(headers: &HeaderMap, answer: &impl Serialize) -> Result<Response<Body>, WebError> {
    let body = serde_json::to_vec_pretty(answer)
        .map_err(|e| WebError::internal("the answer cannot be written as JSON", e))?;
    let etag = ETag::of([&body[..]]);
    if etag.is_known(headers) {
        return Ok(etag.unchanged());
    }
    let body = bytes::Bytes::from(body);
    Ok(etag.put_on(respond::typed(StatusCode::OK, "application/json", body)))
}

fn unreadable(error: DbError) -> WebError {
    WebError::database("what is known of GitHub cannot be read", error)
}
