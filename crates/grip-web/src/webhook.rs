//! Deliveries of GitHub's webhooks.
//!
//! Invariants:
//! - Success is answered only for what is on the disk.
//! - Of a delivery without a signature nothing is kept in memory, and all others together hold no
//!   more than [`MAX_BYTES`] bytes.

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use grip_ingest::webhook::{
    BadDelivery, Delivery, MAX_BODY, Received, Refused, Webhook, WebhookError,
};
use http::{HeaderMap, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    error::{WatchError, WebError},
    limits::Class,
    request_context::{HttpResult, RequestContext},
    respond,
};

/// Bytes of all deliveries under way.
pub(crate) const MAX_BYTES: usize = 128 << 20;
/// How long a delivery may take to come, and to be kept; GitHub itself gives up after ten seconds.
const PATIENCE: Duration = Duration::from_secs(15);

const EVENT: &str = "x-github-event";
const ID: &str = "x-github-delivery";
const SIGNATURE: &str = "x-hub-signature-256";

/// Takes a delivery in.
pub(crate) async fn receive(cx: &RequestContext<'_>, body: Incoming) -> HttpResult {
    let received = take(cx, body).await;
    cx.app.metrics.delivery(match &received {
        Ok(received) => summary(received).1,
        Err(error) => outcome(error),
    });
    let (status, outcome, message) = summary(&received?);
    let answer = json!({ "outcome": outcome, "message": message });
    respond::json(status, &answer)
}

async fn take(cx: &RequestContext<'_>, mut body: Incoming) -> Result<Received, WebError> {
    let webhook = cx.app.watch()?.webhook.as_ref();
    let webhook = webhook.ok_or(WatchError::NoSecret)?;
    let _permit = cx.permit(Class::Webhook)?;
    let signature = one(cx.headers(), SIGNATURE).map(<[u8]>::to_vec);
    let patience = cx.settings.timeouts.body_stall.min(PATIENCE);
    let reading = read(&mut body, signature.is_some(), &cx.app.webhook_bytes);
    let read = match timeout(patience, reading).await {
        Ok(read) => read,
        Err(_) => Err(WatchError::TooSlow.into()),
    };
    let (bytes, _bytes_permit) = match read {
        Ok(read) => read,
        Err(error) => {
            // Who is still sending gets to read the response.
            let rest = discard(&mut body, cx.settings.limits.drain_bytes);
            let _ = timeout(patience, rest).await;
            return Err(error);
        }
    };
    let delivery = Delivery {
        event: text(cx.headers(), EVENT),
        id: text(cx.headers(), ID),
        content_type: text(cx.headers(), header::CONTENT_TYPE.as_str()),
        signature,
        body: bytes,
    };
    let kept = timeout(PATIENCE, keep(webhook, delivery)).await;
    kept.map_err(|_| WebError::Deadline)?
}

async fn keep(webhook: &Webhook, delivery: Delivery) -> Result<Received, WebError> {
    match webhook.receive(delivery).await {
        Ok(Received::KeptAside { reason }) => Err(WatchError::KeptAside(reason).into()),
        Ok(received) => Ok(received),
        Err(WebhookError::Refused(why)) => Err(WatchError::NotSigned(why).into()),
        Err(WebhookError::Bad(BadDelivery::TooBig)) => Err(WatchError::TooLong.into()),
        Err(WebhookError::Bad(why)) => Err(WebError::Malformed(why.to_string())),
        Err(WebhookError::Database(source)) => Err(WebError::Away {
            what: "a delivery cannot be kept",
            source,
        }),
        Err(error) => Err(WebError::internal("a delivery cannot be kept", error)),
    }
}

/// Reads a body whole, unless it has no signature, is too long, or deliveries hold too much together.
async fn read(
    body: &mut Incoming,
    is_signed: bool,
    allowed: &Arc<Semaphore>,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), WebError> {
    if !is_signed {
        return Err(WatchError::NotSigned(Refused::Missing).into());
    }
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(WatchError::TooLong.into());
    }
    let (mut whole, mut held) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
    while let Some(data) = piece(body).await {
        let data = data?;
        if whole.len() + data.len() > MAX_BODY {
            return Err(WatchError::TooLong.into());
        }
        let bytes = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let more = Arc::clone(allowed).try_acquire_many_owned(bytes);
        let more = more.map_err(|_| WebError::Busy(Class::Webhook))?;
        match &mut held {
            Some(held) => held.merge(more),
            None => held = Some(more),
        }
        whole.extend_from_slice(&data);
    }
    Ok((whole.freeze(), held))
}

/// Reads and forgets up to so many bytes.
pub(crate) async fn discard(body: &mut Incoming, mut most: u64) {
    while let Some(Ok(data)) = piece(body).await {
        most = most.saturating_sub(data.len() as u64);
        if most == 0 {
            break;
        }
    }
}

/// The next bytes of a body.
pub(crate) async fn piece(body: &mut Incoming) -> Option<Result<Bytes, WebError>> {
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) => return Some(Ok(data)),
            // Trailers say nothing to us.
            Ok(Err(_)) => {}
            Err(_) => {
                let why = "the body ended before its end";
                return Some(Err(WebError::Malformed(why.into())));
            }
        }
    }
}

/// The value of a header that is there exactly once: of two, nobody knows which was meant.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) if !value.is_empty() => Some(value.as_bytes()),
        _ => None,
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = std::str::from_utf8(one(headers, name)?);
    value.ok().map(str::to_owned)
}

/// What became of a delivery: for GitHub, for the metrics, and for the person who reads GitHub's
/// list of deliveries.
fn summary(received: &Received) -> (StatusCode, &'static str, &'static str) {
    match received {
        Received::Pong { .. } => (
            StatusCode::OK,
            "ping",
            "Welcome: deliveries reach this node.",
        ),
        Received::Push => (StatusCode::ACCEPTED, "push", "The push is kept."),
        Received::Known => (
            StatusCode::OK,
            "known",
            "This delivery came before: nothing has changed.",
        ),
        _ => (
            StatusCode::ACCEPTED,
            "counted",
            "Only pushes are kept here; this is counted.",
        ),
    }
}

fn outcome(error: &WebError) -> &'static str {
    match error {
        WebError::Watch(WatchError::NotSigned(_)) => "not_signed",
        WebError::Watch(WatchError::KeptAside(_)) => "kept_aside",
        WebError::Watch(WatchError::TooLong) => "too_long",
        WebError::Watch(WatchError::TooSlow) => "too_slow",
        WebError::Watch(_) => "off",
        WebError::Malformed(_) => "malformed",
        WebError::Busy(_) => "busy",
        _ => "failed",
    }
}
