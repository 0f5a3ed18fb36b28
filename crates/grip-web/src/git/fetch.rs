//! POST git-upload-pack: ref listings of version 2 in process, packs from git.

use std::io;

use grip_git::{
    Payer,
    upload_request::{Protocol, ReadError, Request as V2},
};
use grip_types::RepoAddr;
use http::Response;
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::Instant,
};

use super::{
    check_content_type, hosted,
    meter::{Meter, MeteredRead},
    protocol, remote_error, reply,
    request_body::{Encoding, Patience, Reader},
};
use crate::{
    body::Body,
    error::WebError,
    limits::Class,
    metrics::GitOp,
    request_context::{HttpResult, RequestContext},
};

const RESULT: &str = "application/x-git-upload-pack-result";

pub(crate) async fn upload_pack(cx: &RequestContext<'_>, body: Incoming) -> HttpResult {
    check_content_type(cx.headers(), "application/x-git-upload-pack-request")?;
    let encoding = Encoding::of(cx.headers())?;
    let protocol = protocol(cx.headers());
    let repo = hosted(cx)?;
    let permit = match cx.permit_for(Class::Fetch, &repo) {
        Ok(permit) => permit,
        Err(busy) => return Ok(in_band(&busy)),
    };
    let meter = Meter::new(cx.app, GitOp::Fetch, Instant::now());
    let patience = Patience::of(&cx.settings);
    let reader = meter.reading(Reader::new(body, encoding, patience));
    let mut response = match protocol {
        Protocol::V2 => version_2(cx, repo, reader, meter).await?,
        Protocol::V0 | Protocol::V1 => pack(cx, repo, protocol, reader, meter).await?,
    };
    response.body_mut().hold(permit);
    Ok(response)
}

async fn version_2(
    cx: &RequestContext<'_>,
    repo: RepoAddr,
    mut reader: MeteredRead<Reader>,
    meter: Meter,
) -> HttpResult {
    let stall = cx.settings.timeouts.body_stall;
    match grip_git::upload_request::read(&mut reader, stall).await {
        Ok(V2::Nothing) => Ok(reply(RESULT, Body::empty())),
        Ok(V2::LsRefs(request)) => {
            let listing = cx.app.refs(&repo).await?.ls_refs(&request);
            meter.sent(listing.len());
            meter.succeeded();
            Ok(reply(RESULT, listing))
        }
        Ok(V2::Fetch(head)) => {
            let body = io::Cursor::new(head).chain(reader);
            pack(cx, repo, Protocol::V2, body, meter).await
        }
        Err(ReadError::Refused(refused)) => Ok(reply(RESULT, refused.reply())),
        Err(broken) => Ok(remote_error(RESULT, &broken.to_string())),
    }
}

/// Streams a pack out of git, which bounds the request and the time of both sides.
async fn pack(
    cx: &RequestContext<'_>,
    repo: RepoAddr,
    protocol: Protocol,
    body: impl AsyncRead + Send + Unpin + 'static,
    meter: Meter,
) -> HttpResult {
    let repositories = cx.app.web.repositories.clone();
    let payer = cx.network().map_or(Payer::Unknown, Payer::Client);
    let chunks = cx
        .app
        .blocking("upload-pack", move || {
            repositories.upload_pack(&repo, protocol, payer, body)
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
