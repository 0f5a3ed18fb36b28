//! Answers that end, stall, break off or go on for ever.

use std::{convert::Infallible, io, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;

use super::{backend::Speaks, packs, record::UnderWay};

pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How much of an answer is handed over at once.
const PIECE: usize = 16 * 1024;

/// A short text; the request counts as over.
pub(super) fn text(text: String) -> Body {
    let never = |impossible: Infallible| match impossible {};
    Full::from(text).map_err(never).boxed_unsync()
}

/// All of `bytes`, `piece` at a time. The request is over just before its last piece is sent.
fn pieces(
    bytes: Bytes,
    piece: usize,
    under_way: UnderWay,
) -> impl Stream<Item = Bytes> + Send + use<> {
    stream::unfold(
        (bytes, Some(under_way)),
        move |(mut rest, mut held)| async move {
            if rest.is_empty() {
                return None;
            }
            let next = rest.split_to(piece.min(rest.len()));
            if rest.is_empty() {
                drop(held.take());
            }
            Some((next, (rest, held)))
        },
    )
}

fn body(frames: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(frames.map(|piece| piece.map(Frame::data))).boxed_unsync()
}

/// The whole answer.
pub(super) fn whole(bytes: Bytes, under_way: UnderWay) -> Body {
    body(pieces(bytes, PIECE, under_way).map(Ok))
}

/// The whole answer, a little at a time.
pub(super) fn trickle(bytes: Bytes, piece: usize, every: Duration, under_way: UnderWay) -> Body {
    body(
        pieces(bytes, piece.max(1), under_way).then(move |piece| async move {
            tokio::time::sleep(every).await;
            Ok(piece)
        }),
    )
}

/// The beginning of the answer, then silence.
pub(super) fn stalled(bytes: Bytes, after: usize, under_way: UnderWay) -> Body {
    let start = bytes.slice(..after.min(bytes.len()));
    let silence = stream::once(async move {
        let _held = under_way;
        std::future::pending().await
    });
    let begun = stream::iter((!start.is_empty()).then_some(Ok(start)));
    body(begun.chain(silence))
}

/// The beginning of the answer, then a closed connection.
pub(super) fn broken(bytes: Bytes, after: usize, under_way: UnderWay) -> Body {
    let start = bytes.slice(..after.min(bytes.len()));
    let end = stream::once(async move {
        // The start must leave before the error makes the server drop what it has not written.
        tokio::task::yield_now().await;
        drop(under_way);
        Err(io::Error::other("told to break off"))
    });
    body(stream::iter([Ok(start)]).chain(end))
}

/// A pack of blobs, all different, without end.
pub(super) fn endless(speaks: Speaks, under_way: UnderWay) -> Body {
    // Git makes room for as many objects as the head says, so not more than it would believe.
    let start = packs::framed(&packs::head(1 << 20), speaks, false);
    let blobs = stream::unfold((under_way, 0_u64), |(held, n)| async move {
        // It never waits for anything else, and the test in the same process is to go on.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let blob = packs::stored_blob(&n.to_be_bytes().repeat(8 * 1024));
        Some((Bytes::from(packs::banded(&blob)), (held, n + 1)))
    });
    body(stream::iter([start]).chain(blobs).map(Ok))
}
