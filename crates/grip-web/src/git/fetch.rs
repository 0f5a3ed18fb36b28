//! POST git-upload-pack: ref listings of version 2 in process, packs from git.

use std::{io, sync::Arc};

use grip_git::{
    RepoPath,
    upload_request::{Protocol, ReadError, Request as V2},
};
use grip_nostr::RepoAddr;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::Instant,
};

use super::{
    body::{Encoding, Reader},
    hosted,
    metered::{Meter, MeteredRead},
    protocol, remote_error, reply,
};
use crate::{
    admission::Class,
    app::{App, Asked},
    body::Body,
    error::WebError,
    metrics::GitOp,
};

const RESULT: &str = "application/x-git-upload-pack-result";

pub(super) async fn handle(
    app: &Arc<App>,
    addr: &RepoAddr,
    request: Request<Incoming>,
    asked: &Asked,
) -> Result<Response<Body>, WebError> {
    let encoding = Encoding::of(request.headers())?;
    let protocol = protocol(request.headers());
    let repo = hosted(app, addr)?;
    let slot = match app.enter(Class::Fetch, asked) {
        Ok(slot) => slot,
        Err(busy) => return Ok(in_band(&busy)),
    };
    let meter = Meter::new(app, GitOp::Fetch, Instant::now());
    let stall = asked.settings.timeouts.body_stall;
    let reader = meter.reading(Reader::new(request.into_body(), encoding, stall));
    let mut response = match protocol {
        Protocol::V2 => version_2(app, repo, reader, asked, meter).await?,
        Protocol::V0 | Protocol::V1 => pack(app, repo, protocol, reader, meter).await?,
    };
    response.body_mut().hold(slot);
    Ok(response)
}

async fn version_2(
    app: &Arc<App>,
    repo: RepoPath,
    mut reader: MeteredRead<Reader>,
    asked: &Asked,
    meter: Meter,
) -> Result<Response<Body>, WebError> {
    let stall = asked.settings.timeouts.body_stall;
    match grip_git::upload_request::read(&mut reader, stall).await {
        Ok(V2::Nothing) => Ok(reply(RESULT, Body::empty())),
        Ok(V2::LsRefs(request)) => {
            let listing = app.refs(&repo).await?.ls_refs(&request);
            meter.sent(listing.len());
            meter.succeeded();
            Ok(reply(RESULT, listing))
        }
        Ok(V2::Fetch(head)) => {
            let body = io::Cursor::new(head).chain(reader);
            pack(app, repo, Protocol::V2, body, meter).await
        }
        Err(ReadError::Refused(refused)) => Ok(reply(RESULT, refused.reply())),
        Err(broken) => Ok(remote_error(RESULT, &broken.to_string())),
    }
}

/// Streams a pack out of git, which bounds the request and the time of both sides.
async fn pack(
    app: &Arc<App>,
    repo: RepoPath,
    protocol: Protocol,
    body: impl AsyncRead + Send + Unpin + 'static,
    meter: Meter,
) -> Result<Response<Body>, WebError> {
    let repositories = app.repositories().clone();
    let chunks = app
        .blocking("upload-pack", move || {
            repositories.upload_pack(&repo, protocol, body)
        })
        .await?
        .map_err(|e| WebError::internal("a repository cannot be read", e))?;
    Ok(reply(RESULT, Body::stream(meter.sending(chunks))))
}

/// A refusal that git prints, with what programs need beside it.
fn in_band(error: &WebError) -> Response<Body> {
    let mut response = remote_error(RESULT, &error.caller());
    error.add_headers(&mut response);
    response
}
