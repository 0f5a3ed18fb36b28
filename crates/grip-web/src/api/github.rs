//! Pushes on GitHub, the people and repositories behind them, and the operator's orders about them.
//!
//! Invariant: what is not public on GitHub is shown to nobody but the operator.

mod parameters;
mod pushes;

use grip_db::DbError;
use grip_ingest::{Ingest, Key, Stored, StoredEvent};
use http::{HeaderMap, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use self::pushes::{PushQuery, pushes};
use super::{
    json, next_page,
    types::{Gaps, GapsClosed, PushFacts, PushPage, ReextractionBegun, Retention},
};
use crate::{
    admin::{Admin, Audit},
    error::{WatchError, WebError},
    etag::ETag,
    query::{decoded, flag, query_text},
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
};

/// Avatars may load and run nothing: their bytes come from strangers.
const AVATAR_POLICY: &str = "default-src 'none'; sandbox";

/// Pushes, page by page.
pub(crate) async fn events(cx: &RequestContext<'_>) -> HttpResult {
    let ingest = &cx.app.watch()?.ingest;
    let asked = parameters::events(cx.query())?;
    let is_operator = cx.is_operator();
    let mut query = PushQuery {
        is_operator,
        ..asked.query
    };
    if let Some(name) = &asked.repository {
        query.events.repository = Some(match number(name) {
            Some(id) => id,
            None => id_of(&repository(ingest, name, is_operator).await?),
        });
    }
    if let Some(name) = &asked.actor {
        query.events.actor = Some(match number(name) {
            Some(id) => id,
            None => id_of(&person(ingest, name).await?),
        });
    }
    let page = pushes(ingest, query).await.map_err(unreadable)?;
    let next = page.next.as_ref().map(parameters::format_cursor);
    let lines = page.pushes.into_iter();
    let events = lines.map(|push| push_facts(push, asked.raw)).collect();
    tagged(cx.headers(), &json!(PushPage { events, next }))
}

pub(crate) async fn user(cx: &RequestContext<'_>) -> HttpResult {
    let ingest = &cx.app.watch()?.ingest;
    let user = person(ingest, &decoded(cx.params()[0], "the person")?).await?;
    tagged(cx.headers(), &fields(user, parameters::raw(cx.query())?))
}

pub(crate) async fn repo(cx: &RequestContext<'_>) -> HttpResult {
    let ingest = &cx.app.watch()?.ingest;
    let name = decoded(cx.params()[0].trim_matches('/'), "the repository")?;
    let repository = repository(ingest, &name, cx.is_operator()).await?;
    let raw = parameters::raw(cx.query())?;
    tagged(cx.headers(), &fields(repository, raw))
}

pub(crate) async fn avatar(cx: &RequestContext<'_>) -> HttpResult {
    let (avatars, user) = (cx.app.watch()?.avatars.as_ref(), number(cx.params()[0]));
    let (Some(avatars), Some(user)) = (avatars, user) else {
        return Err(WatchError::NoPicture.into());
    };
    let found = avatars.picture(user).await;
    let found = found.map_err(|e| WebError::internal("an avatar cannot be read", e))?;
    let picture = found.ok_or(WatchError::NoPicture)?;
    let etag = ETag::named(&picture.digest);
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let media_type = picture.kind.media_type();
    let response = etag.put_on(respond::typed(StatusCode::OK, media_type, picture.bytes));
    Ok(response.with(header::CONTENT_SECURITY_POLICY, AVATAR_POLICY))
}

pub(crate) async fn stats(cx: &RequestContext<'_>) -> HttpResult {
    let stats = cx.app.samples.watch_stats(&cx.app.watch()?.ingest).await;
    tagged(cx.headers(), &stats.map_err(unreadable)?)
}

pub(crate) async fn status(cx: &RequestContext<'_>) -> HttpResult {
    let status = cx.app.samples.watch_status(&cx.app.watch()?.ingest).await;
    tagged(cx.headers(), &status.map_err(unreadable)?)
}

/// Gaps in what was seen, page by page.
pub(crate) async fn gaps(cx: &RequestContext<'_>) -> HttpResult {
    let ingest = &cx.app.watch()?.ingest;
    let (only_open, after, limit) = parameters::gaps(cx.query())?;
    let gaps = ingest.gaps(only_open, after, limit).await;
    let gaps = gaps.map_err(unreadable)?;
    let next = next_page(&gaps, limit, |gap| gap.id);
    tagged(cx.headers(), &json!(Gaps { gaps, next }))
}

/// Any other path below `/api/v1/github/`.
pub(crate) fn nothing(cx: &RequestContext<'_>) -> HttpResult {
    cx.app.watch()?;
    Err(WatchError::Nothing.into())
}

/// Deletes what is older than it is kept; without `dry_run=false` it is only counted.
pub(crate) async fn retention(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let dry_run = flag(cx.query(), "dry_run")?.unwrap_or(true);
    let ingest = &cx.app.watch()?.ingest;
    let subject = if dry_run { "dry run" } else { "for good" };
    let audit = admin.begin("github retention", subject);
    let gone = end(audit, ingest.retention(dry_run).await)?;
    json(StatusCode::OK, &json!(Retention { dry_run, gone }))
}

/// Extracts all stored events again by the rules of today.
pub(crate) async fn reextract(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let ingest = &cx.app.watch()?.ingest;
    let audit = admin.begin("github reextract", "everything");
    end(audit, ingest.reextract().await)?;
    json(StatusCode::ACCEPTED, &ReextractionBegun { began: true })
}

/// Declares the gaps between two moments filled.
pub(crate) async fn close_gaps(cx: &RequestContext<'_>, admin: Admin) -> HttpResult {
    let (ingest, query) = (&cx.app.watch()?.ingest, cx.query());
    let missing = |name| {
        let why = format!("{name} is missing: a moment such as 2026-01-31T12:00:00Z");
        WebError::Malformed(why)
    };
    let from = parameters::moment(query, "from")?.ok_or_else(|| missing("from"))?;
    let to = parameters::moment(query, "to")?.ok_or_else(|| missing("to"))?;
    if to < from {
        let why = "to lies before from";
        return Err(WebError::Malformed(why.into()));
    }
    let by = query_text(query, "by")?.unwrap_or_else(|| "operator".into());
    if by.len() > 256 || by.contains(char::is_control) {
        let why = "by is a short name without control characters";
        return Err(WebError::Malformed(why.into()));
    }
    let audit = admin.begin("github gaps close", format!("{from} to {to}"));
    let closed = end(audit, ingest.close_gaps(from, to, &by).await)?;
    json(StatusCode::OK, &GapsClosed { closed })
}

/// Records the outcome of an order.
fn end<T: std::fmt::Debug>(audit: Audit, done: Result<T, DbError>) -> Result<T, WebError> {
    match &done {
        Ok(done) => audit.end(format!("done: {done:?}")),
        Err(error) => audit.end(format!("failed: {error}")),
    }
    done.map_err(unreadable)
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
    let field = |column| repository.fields.get(column);
    let visibility = field("visibility").and_then(Value::as_str);
    field("private") == Some(&Value::Bool(false)) && visibility.is_none_or(|how| how == "public")
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

/// A push for programs.
fn push_facts(push: StoredEvent, with_raw: bool) -> PushFacts {
    let raw = with_raw.then(|| serde_json::from_str(&push.raw).unwrap_or_default());
    PushFacts { push, raw }
}

/// A person or a repository for programs.
fn fields(stored: Stored, with_raw: bool) -> Value {
    let mut fields = stored.fields;
    fields.insert("fetched_at".into(), stored.fetched_at.into());
    fields.insert("created_at".into(), stored.created_at.into());
    fields.insert("updated_at".into(), stored.updated_at.into());
    fields.insert("unfit".into(), stored.unfit.into());
    if with_raw {
        let raw = serde_json::from_str(&stored.raw).unwrap_or(Value::Null);
        fields.insert("raw".into(), raw);
    }
    Value::Object(fields)
}

/// A response with its tag, or that the client has it.
fn tagged(headers: &HeaderMap, answer: &impl Serialize) -> HttpResult {
    let body = serde_json::to_vec_pretty(answer)
        .map_err(|e| WebError::internal("the answer cannot be written as JSON", e))?;
    let etag = ETag::of([&body[..]]);
    if etag.is_known(headers) {
        return Ok(etag.unchanged());
    }
    let body = bytes::Bytes::from(body);
    Ok(etag.put_on(respond::typed(StatusCode::OK, "application/json", body)))
}

pub(crate) fn unreadable(error: DbError) -> WebError {
    WebError::internal("what is known of GitHub cannot be read", error)
}
