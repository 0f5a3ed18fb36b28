//! The body of a git request as a plain stream of bytes.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use grip_git::gunzip::Gunzip;
use http::{HeaderMap, header};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    time::{Instant, Sleep},
};

use crate::error::WebError;

/// The content encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Gzip,
}

impl Encoding {
    /// Reads `Content-Encoding`; git compresses long fetch requests, nothing else.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, WebError> {
        let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
        let first = match values.next() {
            None => return Ok(Self::Plain),
            Some(value) => value.to_str().map_err(|_| WebError::ContentEncoding)?,
        };
        if values.next().is_some() {
            return Err(WebError::ContentEncoding);
        }
        match first.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Plain),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            _ => Err(WebError::ContentEncoding),
        }
    }
}

/// Reads the bytes git sent, decompressed.
pub(super) enum Reader {
    Plain(Received),
    Gzip(Box<Gunzip<Received>>),
}

impl Reader {
    pub(super) fn new(body: Incoming, encoding: Encoding, stall: Duration) -> Self {
        let received = Received::new(body, stall);
        match encoding {
            Encoding::Plain => Self::Plain(received),
            Encoding::Gzip => Self::Gzip(Box::new(Gunzip::new(received))),
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(inner) => Pin::new(inner).poll_read(cx, buf),
            Self::Gzip(inner) => Pin::new(inner.as_mut()).poll_read(cx, buf),
        }
    }
}

/// Bytes that buy a client another while: without it one byte a minute would hold a permit for ever.
const PIECE: usize = 1024;

/// The bytes as they came, with a limit on how long a client may take for each [`PIECE`].
pub(super) struct Received {
    body: Incoming,
    chunk: Bytes,
    /// What came since the deadline was set.
    fresh: usize,
    stall: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl Received {
    fn new(body: Incoming, stall: Duration) -> Self {
        Self {
            body,
            chunk: Bytes::new(),
            fresh: 0,
            stall,
            deadline: Box::pin(tokio::time::sleep(stall)),
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(frame)) => frame.map_err(io::Error::other),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    ready!(self.deadline.as_mut().poll(cx));
                    let stalled = "the client sent next to nothing for too long";
                    return Poll::Ready(Some(Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        stalled,
                    ))));
                }
            };
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(data)) if data.has_remaining() => {
                    self.came(data.len());
                    return Poll::Ready(Some(Ok(data)));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn came(&mut self, bytes: usize) {
        self.fresh += bytes;
        if self.fresh >= PIECE {
            self.fresh = 0;
            self.deadline.as_mut().reset(Instant::now() + self.stall);
        }
    }
}

impl AsyncRead for Received {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.chunk.is_empty() {
            match ready!(self.poll_chunk(cx)) {
                Some(chunk) => self.chunk = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = self.chunk.len().min(buf.remaining());
        buf.put_slice(&self.chunk.split_to(len));
        Poll::Ready(Ok(()))
    }
}

/// Reads and forgets up to `limit` bytes, so that a client which is still sending gets to read
/// the response; for at most `time`.
pub(super) async fn discard(reader: &mut (impl AsyncRead + Unpin), limit: u64, time: Duration) {
    let (mut rest, mut sink) = (reader.take(limit), tokio::io::sink());
    let reading = tokio::io::copy(&mut rest, &mut sink);
    // However it ends, what follows is the refusal.
    let _ = tokio::time::timeout(time, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn plain_and_gzip_are_known_and_nothing_else() {
        let of = |values: &[&'static str]| {
            Encoding::of(&testing::header("content-encoding", values)).ok()
        };
        for (values, encoding) in [
            (&[][..], Some(Encoding::Plain)),
            (&["identity"], Some(Encoding::Plain)),
            (&["gzip"], Some(Encoding::Gzip)),
            (&["X-Gzip"], Some(Encoding::Gzip)),
            (&["br"], None),
            (&["gzip, gzip"], None),
            (&["gzip", "gzip"], None),
        ] {
            assert_eq!(of(values), encoding, "{values:?}");
        }
    }
}
