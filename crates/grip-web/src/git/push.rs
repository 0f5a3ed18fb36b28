//! POST git-receive-pack: the upload goes to the service, its reply streams back.

use std::sync::Arc;

use futures_util::StreamExt;
use grip_git::{push_request::ReadError, report};
use grip_nostr::RepoAddr;
use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::{
    body::{Encoding, Reader, discard},
    hosted,
    metered::Meter,
    reply,
};
use crate::{
    admission::Class,
    app::{App, Asked},
    body::Body,
    error::WebError,
    metrics::GitOp,
};

const RESULT: &str = "application/x-git-receive-pack-result";

pub(super) async fn handle(
    app: &Arc<App>,
    addr: RepoAddr,
    request: Request<Incoming>,
    asked: &Asked,
) -> Result<Response<Body>, WebError> {
    let encoding = Encoding::of(request.headers())?;
    hosted(app, &addr)?;
    let stall = asked.settings.timeouts.body_stall;
    let reader = Reader::new(request.into_body(), encoding, stall);
    let slot = match app.enter(Class::Push, asked) {
        Ok(slot) => slot,
        Err(busy) => return Ok(refuse(&busy, reader, asked).await),
    };
    let meter = Meter::new(app, GitOp::Push, Instant::now());
    let answer = app.grasp().push(addr, meter.reading(reader)).await;
    let pieces = answer.body.map(move |piece| {
        meter.sent(piece.len());
        if says_ok(&piece) {
            meter.succeeded();
        }
        Ok(piece)
    });
    let mut response = reply(RESULT, Body::stream(pieces));
    response.body_mut().hold(slot);
    Ok(response)
}

/// Says whether a piece of the answer reports success. The report comes in one piece, after a few
/// lines for the person.
fn says_ok(piece: &[u8]) -> bool {
    const OK: &[u8] = b"unpack ok";
    let beginning = &piece[..piece.len().min(4096)];
    beginning.windows(OK.len()).any(|window| window == OK)
}

/// Refuses a push so that the person at the other end reads why: the commands are read to name
/// each, and a bounded part of the pack is read so that the client comes to reading the answer.
async fn refuse(error: &WebError, mut reader: Reader, asked: &Asked) -> Response<Body> {
    let stall = asked.settings.timeouts.body_stall;
    let body = match grip_git::push_request::read(&mut reader, stall).await {
        Ok((push, _)) if push.commands.is_empty() => bytes::Bytes::new(),
        Ok((push, _)) => {
            let names = push.commands.iter().map(|c| c.name.as_str().as_bytes());
            report::refused(&push.capabilities, names, &error.caller())
        }
        Err(ReadError::Refused(refused)) => refused.reply(),
        Err(broken) => grip_git::pktline::error(&report::one_line(&broken.to_string())),
    };
    discard(&mut reader, asked.settings.limits.drain_bytes, stall).await;
    let mut response = reply(RESULT, body);
    error.add_headers(&mut response);
    response
}
