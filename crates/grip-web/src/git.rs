//! Git smart HTTP: the four requests of a repository.
//!
//! Refs are listed in process from a snapshot; packs stream both ways through git. A refusal of
//! a POST is a 200 in the form git shows to people.

mod body;
mod fetch;
mod metered;
mod push;

use std::sync::Arc;

use grip_git::{
    RepoPath,
    upload_request::{GitService, Protocol},
};
use grip_nostr::RepoAddr;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::time::Instant;

use self::metered::Meter;
use crate::{
    admission::Class,
    app::{App, Asked},
    body::Body,
    error::WebError,
    method::{only_get, only_post},
    metrics::GitOp,
    query::query_value,
    respond,
    route::Endpoint,
};

const GIT_PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");

/// Answers a request for something of the repository `addr`.
pub(crate) async fn handle(
    app: &Arc<App>,
    addr: RepoAddr,
    endpoint: Endpoint,
    request: Request<Incoming>,
    asked: Asked,
) -> Result<Response<Body>, WebError> {
    match endpoint {
        Endpoint::InfoRefs => info_refs(app, &addr, &request, &asked).await,
        Endpoint::UploadPack => {
            check_post(&request, GitService::UploadPack)?;
            fetch::handle(app, &addr, request, &asked).await
        }
        Endpoint::ReceivePack => {
            check_post(&request, GitService::ReceivePack)?;
            push::handle(app, addr, request, &asked).await
        }
        Endpoint::Dumb => {
            only_get(request.method())?;
            Err(WebError::DumbHttp)
        }
    }
}

/// Lists refs, or what protocol version 2 can do.
async fn info_refs(
    app: &Arc<App>,
    addr: &RepoAddr,
    request: &Request<Incoming>,
    asked: &Asked,
) -> Result<Response<Body>, WebError> {
    only_get(request.method())?;
    let name = query_value(request.uri().query(), "service").ok_or(WebError::DumbHttp)?;
    let service = GitService::from_name(name).ok_or(WebError::UnknownService)?;
    let repo = hosted(app, addr)?;
    let slot = app.enter(Class::Advertise, asked)?;
    let began = Instant::now();
    let refs = app.refs(&repo).await?;
    let advertisement = refs.advertisement(service, protocol(request.headers()));
    let meter = Meter::new(app, GitOp::Advertise, began);
    meter.sent(advertisement.len());
    meter.succeeded();
    let content_type = match service {
        GitService::UploadPack => "application/x-git-upload-pack-advertisement",
        GitService::ReceivePack => "application/x-git-receive-pack-advertisement",
    };
    let mut response = reply(content_type, advertisement);
    response.body_mut().hold(slot);
    Ok(response)
}

/// The repository on disk, if it is hosted here, served or held.
fn hosted(app: &App, addr: &RepoAddr) -> Result<RepoPath, WebError> {
    match app.grasp().repository(addr) {
        Some(_) => Ok(RepoPath::new(addr.npub(), addr.identifier.clone())),
        None => Err(WebError::NoSuchRepository),
    }
}

fn protocol(headers: &HeaderMap) -> Protocol {
    Protocol::from_header(headers.get(GIT_PROTOCOL).and_then(|v| v.to_str().ok()))
}

fn check_post(request: &Request<Incoming>, service: GitService) -> Result<(), WebError> {
    only_post(request.method())?;
    let expected = match service {
        GitService::UploadPack => "application/x-git-upload-pack-request",
        GitService::ReceivePack => "application/x-git-receive-pack-request",
    };
    let given = request.headers().get(header::CONTENT_TYPE);
    let essence = given
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split(';').next())
        .map(str::trim);
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case(expected) => Ok(()),
        _ => Err(WebError::ContentType { expected }),
    }
}

/// An answer of git's: of an exact type, and never from a cache.
fn reply(content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = respond::typed(StatusCode::OK, content_type, body);
    let headers = response.headers_mut();
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, max-age=0, must-revalidate"),
    );
    headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(
        header::EXPIRES,
        HeaderValue::from_static("Fri, 01 Jan 1980 00:00:00 GMT"),
    );
    response
}

/// A refusal that stock git prints as `fatal: remote error: …`.
fn remote_error(content_type: &'static str, reason: &str) -> Response<Body> {
    let line = grip_git::report::one_line(reason);
    reply(content_type, grip_git::pktline::error(&line))
}
