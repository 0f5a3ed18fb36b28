//! Git smart HTTP: the four requests of a repository.
//!
//! Refs are listed in process from a snapshot; packs stream both ways through git. A refusal of
//! a POST is a 200 in the form git shows to people.

mod fetch;
mod meter;
mod push;
mod request_body;

use grip_git::{
    RepoError,
    upload_request::{GitService, Protocol},
};
use grip_types::RepoAddr;
use http::{HeaderMap, HeaderName, Response, StatusCode, header};
use tokio::time::Instant;

use self::meter::Meter;
pub(crate) use self::{
    fetch::{RESULT as UPLOAD_PACK_RESULT, upload_pack},
    push::receive_pack,
    request_body::{Encoding, Patience, Reader, RequestHead, read_head},
};
use crate::{
    body::Body,
    error::WebError,
    limits::Class,
    metrics::GitOp,
    query::query_value,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
};

const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

/// The dumb protocol, which is not served.
pub(crate) fn dumb_http(_: &RequestContext<'_>) -> HttpResult {
    Err(WebError::DumbHttp)
}

/// Lists refs, or the capabilities of protocol version 2.
pub(crate) async fn info_refs(cx: &RequestContext<'_>) -> HttpResult {
    let name = query_value(cx.query(), "service").ok_or(WebError::DumbHttp)?;
    let service = GitService::from_name(name).ok_or(WebError::UnknownService)?;
    let repo = hosted(cx)?;
    let permit = cx.permit(Class::Advertise)?;
    let began = Instant::now();
    let refs = cx.app.refs(&repo).await?;
    let advertisement = refs.advertisement(service, protocol(cx.headers()));
    let meter = Meter::new(cx.app, GitOp::Advertise, began);
    meter.sent(advertisement.len());
    meter.succeeded();
    let content_type = match service {
        GitService::UploadPack => "application/x-git-upload-pack-advertisement",
        GitService::ReceivePack => "application/x-git-receive-pack-advertisement",
    };
    let mut response = reply(content_type, advertisement);
    response.body_mut().hold(permit);
    Ok(response)
}

/// The repository, if it is hosted here, served or held, or a contributor's: all of those are here.
fn hosted(cx: &RequestContext<'_>) -> Result<RepoAddr, WebError> {
    let addr = cx.repository()?;
    let grasp = &cx.app.web.grasp;
    if !addr.is_contributor() && grasp.repository(addr).is_none() {
        return Err(WebError::NoSuchRepository);
    }
    match grasp.damage(addr) {
        Some(reason) => Err(WebError::Damaged { reason }),
        None => Ok(addr.clone()),
    }
}

pub(crate) fn protocol(headers: &HeaderMap) -> Protocol {
    Protocol::from_header(headers.get(GIT_PROTOCOL).and_then(|v| v.to_str().ok()))
}

pub(crate) fn check_content_type(
    headers: &HeaderMap,
    expected: &'static str,
) -> Result<(), WebError> {
    let given = headers.get(header::CONTENT_TYPE);
    let essence = given
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case(expected) => Ok(()),
        _ => Err(WebError::ContentType { expected }),
    }
}

/// A response for git: of an exact type, and never from a cache.
pub(crate) fn reply(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    respond::typed(StatusCode::OK, content_type, body)
        .with(
            header::CACHE_CONTROL,
            "no-cache, max-age=0, must-revalidate",
        )
        .with(header::PRAGMA, "no-cache")
        .with(header::EXPIRES, "Fri, 01 Jan 1980 00:00:00 GMT")
}

/// A refusal that stock git prints as `fatal: remote error: …`.
pub(crate) fn remote_error(content_type: &'static str, reason: &str) -> Response<Body> {
    let line = grip_git::report::one_line(reason);
    reply(content_type, grip_git::pktline::error(&line))
}

/// Why a repository that should be here cannot be fetched from.
pub(crate) fn unreadable(error: RepoError) -> WebError {
    match error {
        RepoError::NotFound(_) => WebError::NoSuchRepository,
        error @ RepoError::NotFetched { .. } => WebError::PacksAway(Box::new(error)),
        error => WebError::internal("a repository cannot be read", error),
    }
}
