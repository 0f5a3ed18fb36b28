//! POST git-upload-pack: ref listings of version 2 in process, packs from git.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, stream};
use grip_git::{
    FetchOutcome, Payer,
    upload_request::{Protocol, ReadError, Request as V2},
};
use grip_tasks::MakesRoom;
use grip_types::RepoAddr;
use http::Response;
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::Instant,
};

use super::{
    check_content_type, hosted,
    meter::Meter,
    protocol, remote_error, reply,
    request_body::{Encoding, Patience, Reader, read_head},
    unreadable,
};
use crate::{
    body::Body,
    error::WebError,
    limits::{Class, RequestPermit, RequestRest},
    metrics::GitOp,
    request_context::{HttpResult, RequestContext},
};

pub(crate) const RESULT: &str = "application/x-git-upload-pack-result";

pub(crate) async fn upload_pack(cx: &RequestContext<'_>, body: Incoming) -> HttpResult {
    check_content_type(cx.headers(), "application/x-git-upload-pack-request")?;
    let encoding = Encoding::of(cx.headers())?;
    let protocol = protocol(cx.headers());
    let repo = hosted(cx)?;
    let rest = Arc::<RequestRest>::default();
    let patience = Patience::of(&cx.settings);
    let mut reader = Reader::watched(body, encoding, patience, rest.progress());
    // Before the permit: a client that does not say what it wants holds up nobody else.
    let head = match read_head(&mut reader).await {
        Ok(head) => head,
        Err(broken) => return Ok(remote_error(RESULT, &broken.to_string())),
    };
    let permit = match cx.permit_soon(Class::Fetch, Some(&repo)).await {
        Ok(permit) => permit,
        Err(busy) => return Ok(in_band(&busy)),
    };
    let meter = Meter::new(cx.app, GitOp::Fetch, Instant::now());
    let body = meter.reading(head.followed_by(rest.watch(reader)));
    let fetch = FetchRequest {
        repo,
        protocol,
        rest,
        meter,
        outcome: FetchOutcome::default(),
        permit,
    };
    match protocol {
        Protocol::V2 => version_2(cx, fetch, body).await,
        Protocol::V0 | Protocol::V1 => pack(cx, fetch, body).await,
    }
}

/// A fetch that has its permit.
struct FetchRequest {
    repo: RepoAddr,
    protocol: Protocol,
    rest: Arc<RequestRest>,
    meter: Meter,
    outcome: FetchOutcome,
    permit: RequestPermit,
}

impl FetchRequest {
    /// Sends the answer, which is cut where its client hardly reads it and others wait.
    fn send<S>(self, cx: &RequestContext<'_>, chunks: S) -> Response<Body>
    where
        S: Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static,
    {
        let chunks = self.meter.sending(chunks, self.outcome);
        let (limits, network) = (&cx.app.limits, cx.network());
        let chunks = limits.fetch(chunks, self.permit, network, self.repo, self.rest);
        reply(RESULT, Body::stream(chunks))
    }
}

async fn version_2(
    cx: &RequestContext<'_>,
    fetch: FetchRequest,
    mut body: impl AsyncRead + Send + Unpin + 'static,
) -> HttpResult {
    let stall = cx.settings.timeouts.body_stall;
    match grip_git::upload_request::read(&mut body, stall).await {
        Ok(V2::Nothing) => Ok(reply(RESULT, Body::empty())),
        Ok(V2::LsRefs(request)) => {
            let listing = cx.app.refs(&fetch.repo).await?.ls_refs(&request);
            Ok(fetch.send(cx, stream::iter(listing.map(Ok))))
        }
        Ok(V2::Fetch(head)) => {
            let body = io::Cursor::new(head).chain(body);
            pack(cx, fetch, body).await
        }
        Err(ReadError::Refused(refused)) => Ok(reply(RESULT, refused.reply())),
        Err(broken) => Ok(remote_error(RESULT, &broken.to_string())),
    }
}

/// Streams a pack out of git, which bounds the request and the time of both sides.
async fn pack(
    cx: &RequestContext<'_>,
    fetch: FetchRequest,
    body: impl AsyncRead + Send + Unpin + 'static,
) -> HttpResult {
    let repositories = cx.app.web.repositories.clone();
    let payer = cx.network().map_or(Payer::Unknown, Payer::Client);
    let (repo, protocol) = (fetch.repo.clone(), fetch.protocol);
    let room = Some(Arc::clone(&fetch.rest) as Arc<dyn MakesRoom>);
    let outcome = fetch.outcome.clone();
    let chunks = cx
        .app
        .blocking("upload-pack", move || {
            repositories.upload_pack_or_make_room(&repo, protocol, payer, body, room, outcome)
        })
        .await?
        .map_err(unreadable)?;
    Ok(fetch.send(cx, chunks))
}

/// A refusal that git prints, with what programs need beside it.
fn in_band(error: &WebError) -> Response<Body> {
    let mut response = remote_error(RESULT, &error.caller());
    error.add_headers(&mut response);
    response
}
