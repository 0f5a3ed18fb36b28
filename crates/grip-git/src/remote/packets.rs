//! Packets of a response, one at a time.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::pktline::{self, Packet};

use super::RemoteError;

/// Bytes asked for at a time.
const STEP: usize = 64 << 10;

/// How the first line of an answer may begin, besides with an object id or a side band.
const STARTS: &[&[u8]] = &[
    b"# service=",
    b"version ",
    b"packfile",
    b"acknowledgments",
    b"shallow",
    b"unshallow",
    b"wanted-refs",
    b"unborn ",
    b"NAK",
    b"ACK ",
    b"ERR ",
];

/// A packet with its data.
#[derive(Debug, PartialEq)]
pub(super) enum Owned {
    Data(Bytes),
    Flush,
    Delim,
    ResponseEnd,
}

/// Cuts a stream into packets; holds no more than a packet and one read.
pub(super) struct Packets<R> {
    inner: R,
    buffer: BytesMut,
    /// Bytes of the packets given out.
    pub(super) taken: u64,
}

impl<R: AsyncRead + Unpin> Packets<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            buffer: BytesMut::new(),
            taken: 0,
        }
    }

    pub(super) fn into_inner(self) -> R {
        self.inner
    }

    /// The next packet; `None` if the stream ends between two. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Owned>, RemoteError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Owned>, RemoteError>> {
        loop {
            match pktline::decode(&self.buffer) {
                Ok(Some((packet, len))) => {
                    if matches!(packet, Packet::Data(data) if !self.may_be(data, true)) {
                        return Poll::Ready(Err(RemoteError::NotSmart));
                    }
                    let special = match packet {
                        Packet::Data(_) => None,
                        Packet::Flush => Some(Owned::Flush),
                        Packet::Delim => Some(Owned::Delim),
                        Packet::ResponseEnd => Some(Owned::ResponseEnd),
                    };
                    self.taken += len as u64;
                    let packet = self.buffer.split_to(len).freeze();
                    let packet = special.unwrap_or_else(|| Owned::Data(packet.slice(4..)));
                    return Poll::Ready(Ok(Some(packet)));
                }
                Ok(None) => {}
                Err(pktline::Malformed) if self.taken == 0 => {
                    return Poll::Ready(Err(RemoteError::NotSmart));
                }
                Err(pktline::Malformed) => return Poll::Ready(Err(RemoteError::Malformed)),
            }
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(self.end());
            }
        }
    }

    fn end(&self) -> Result<Option<Owned>, RemoteError> {
        if self.buffer.is_empty() {
            Ok(None)
        } else if self.may_be(self.buffer.get(4..).unwrap_or_default(), false) {
            Err(RemoteError::Truncated)
        } else {
            Err(RemoteError::NotSmart)
        }
    }

    /// Says whether a first line, or the start of one, may be git's: a text can look like a packet
    /// if it begins with hex digits, as the listing of refs on a plain file server does.
    fn may_be(&self, line: &[u8], is_whole: bool) -> bool {
        let begins =
            |start: &&[u8]| line.starts_with(start) || !is_whole && start.starts_with(line);
        let is_oid = || match line.iter().position(|byte| !byte.is_ascii_hexdigit()) {
            Some(end) => matches!(end, 40 | 64) && line[end] == b' ',
            None => !is_whole,
        };
        self.taken > 0
            || line.first().is_none_or(|band| (1..=3).contains(band))
            || STARTS.iter().any(begins)
            || is_oid()
    }

    /// Says whether the bytes of a pack follow, bare of any framing.
    pub(super) async fn is_at_pack(&mut self) -> Result<bool, RemoteError> {
        while self.buffer.len() < 4 {
            if poll_fn(|cx| self.poll_fill(cx)).await? == 0 {
                break;
            }
        }
        Ok(self.buffer.starts_with(b"PACK"))
    }

    /// The next bytes as they are; none at the end.
    pub(super) fn poll_bare(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, RemoteError>> {
        if self.buffer.is_empty() {
            ready!(self.poll_fill(cx))?;
        }
        Poll::Ready(Ok(self.buffer.split().freeze()))
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, RemoteError>> {
        self.buffer.reserve(STEP);
        let read = pin!(self.inner.read_buf(&mut self.buffer)).poll(cx);
        read.map_err(RemoteError::Io)
    }
}
