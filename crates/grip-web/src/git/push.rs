//! POST git-receive-pack: the upload goes to the service, its reply streams back.

use std::sync::Arc;

use futures_util::StreamExt;
use grip_git::{push_request::ReadError, report};
use grip_tasks::UploadProgress;
use http::Response;
use hyper::body::Incoming;
use tokio::{io::AsyncRead, time::Instant};

use super::{
    check_content_type, hosted,
    meter::Meter,
    remote_error, reply,
    request_body::{Encoding, Patience, Reader, discard, read_commands},
};
use crate::{
    body::Body,
    error::WebError,
    limits::Class,
    metrics::GitOp,
    request_context::{HttpResult, RequestContext},
};

const RESULT: &str = "application/x-git-receive-pack-result";

pub(crate) async fn receive_pack(cx: &RequestContext<'_>, body: Incoming) -> HttpResult {
    check_content_type(cx.headers(), "application/x-git-receive-pack-request")?;
    let encoding = Encoding::of(cx.headers())?;
    hosted(cx)?;
    let progress = Arc::<UploadProgress>::default();
    let patience = Patience::of(&cx.settings);
    let mut reader = Reader::watched(body, encoding, patience, Arc::clone(&progress));
    // Before the permit: a client that does not say what it wants holds up nobody else.
    let head = match read_commands(&mut reader).await {
        Ok(head) => head,
        Err(broken) => return Ok(remote_error(RESULT, &broken.to_string())),
    };
    let reader = head.followed_by(reader);
    let permit = match cx.permit_soon(Class::Push, cx.repository().ok()).await {
        Ok(permit) => permit,
        Err(busy) => return Ok(refuse(&busy, reader, cx).await),
    };
    let meter = Meter::new(cx.app, GitOp::Push, Instant::now());
    let addr = cx.repository()?.clone();
    let (limits, network) = (&cx.app.limits, cx.network());
    let upload = limits.upload(permit, network, addr.clone(), Arc::clone(&progress));
    let grasp = &cx.app.web.grasp;
    let mut answer = grasp
        .push_watched(addr, network, meter.reading(reader), progress)
        .await;
    let mut permit = Some(upload);
    if let Some(unread) = answer.unread.take() {
        // Who trickles what is refused keeps nobody else from pushing.
        permit = None;
        unread.drain().await;
    }
    let pieces = answer.body.map(move |piece| {
        meter.sent(piece.len());
        if says_ok(&piece) {
            meter.succeeded();
        }
        Ok(piece)
    });
    let mut response = reply(RESULT, Body::stream(pieces));
    if let Some(permit) = permit {
        response.body_mut().hold(permit);
    }
    Ok(response)
}

/// Whether a piece of the response reports success. The report comes in one piece, after a few
/// lines for the person.
fn says_ok(piece: &[u8]) -> bool {
    const OK: &[u8] = b"unpack ok";
    let beginning = &piece[..piece.len().min(4096)];
    beginning.windows(OK.len()).any(|window| window == OK)
}

/// Refuses a push so that the person at the other end reads why: the commands are read to name
/// each, and a bounded part of the pack is read so that the client comes to reading the response.
async fn refuse(
    error: &WebError,
    mut reader: impl AsyncRead + Send + Unpin,
    cx: &RequestContext<'_>,
) -> Response<Body> {
    let stall = cx.settings.timeouts.body_stall;
    let body = match grip_git::push_request::read(&mut reader, stall).await {
        Ok((push, _)) if push.commands.is_empty() => bytes::Bytes::new(),
        Ok((push, _)) => {
            let names = push.commands.iter().map(|c| c.name.as_str().as_bytes());
            report::refused(&push.capabilities, names, &error.caller())
        }
        Err(ReadError::Refused(refused)) => refused.reply(),
        Err(broken) => grip_git::pktline::error(&report::one_line(&broken.to_string())),
    };
    discard(&mut reader, cx.settings.limits.drain_bytes, stall).await;
    let mut response = reply(RESULT, body);
    error.add_headers(&mut response);
    response
}
