//! Pack in a response to a fetch.
//!
//! Bounds: all that comes before the pack, and all that comes beside it in the progress band, is
//! read and dropped up to [`MAX_ASIDE_PACKETS`] packets and [`MAX_ASIDE_BYTES`] bytes; a server that
//! goes on is given up. The size of the pack is for whoever stores it to bound.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use crate::pktline;

use super::{
    RemoteError, Version,
    error::refusal,
    packets::{Owned, Packets},
};

/// Most packets without a byte of the pack; git sends an empty one every five seconds.
pub const MAX_ASIDE_PACKETS: u32 = 65_536;
/// Most bytes that are not of the pack.
pub const MAX_ASIDE_BYTES: usize = 1 << 20;

/// Reads an answer to a fetch up to its pack.
///
/// Acknowledgements and the shallow boundary are passed over: whether the pack is complete with
/// what is here is for git to find out. [`RemoteError::UnsupportedVersion`] means that a server
/// did not understand version 2: one with git before 2.18, or one that was not told the version,
/// answers with nothing at all.
pub async fn open_pack<R>(reader: R, version: Version) -> Result<Pack<R>, RemoteError>
where
    R: AsyncRead + Send + Unpin,
{
    let mut pack = Pack {
        packets: Packets::new(reader),
        state: State::Banded,
        payload: Bytes::new(),
        aside: Allowance::default(),
    };
    match version {
        Version::V0 | Version::V1 => pack.open_v0().await?,
        Version::V2 => pack.open_v2().await?,
    }
    Ok(pack)
}

/// The bytes of a pack, taken out of the side band as they come.
///
/// It ends where the server says that the pack ends; what may follow is not read. Errors carry a
/// [`RemoteError`], see [`RemoteError::inside`]; those of the stream below stay as they are.
/// A read may go through many packets without a byte of the pack: a time limit around one bounds
/// the time to the next byte of the pack, not of the connection.
pub struct Pack<R> {
    packets: Packets<R>,
    state: State,
    payload: Bytes,
    aside: Allowance,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Banded,
    Bare,
    Over,
    Failed,
}

/// What may still come that is not of the pack.
#[derive(Default)]
struct Allowance {
    packets: u32,
    bytes: usize,
}

impl Allowance {
    fn spend(&mut self, data: &[u8]) -> Result<(), RemoteError> {
        self.packets += 1;
        self.bytes += data.len();
        if self.packets > MAX_ASIDE_PACKETS || self.bytes > MAX_ASIDE_BYTES {
            return Err(RemoteError::Endless);
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> Pack<R> {
    /// The stream, to read what follows the pack; what was read ahead is lost.
    pub fn into_inner(self) -> R {
        self.packets.into_inner()
    }

    /// Passes over every section before `packfile`.
    async fn open_v2(&mut self) -> Result<(), RemoteError> {
        let mut in_section = false;
        loop {
            let is_first = self.packets.taken == 0;
            let line = match self.packets.next().await? {
                None if is_first => return Err(RemoteError::UnsupportedVersion),
                None => return Err(RemoteError::Truncated),
                Some(Owned::Delim) if in_section => {
                    in_section = false;
                    self.aside.spend(b"")?;
                    continue;
                }
                Some(Owned::Data(line)) => line,
                Some(_) => return Err(RemoteError::Malformed),
            };
            self.aside.spend(&line)?;
            match pktline::strip_lf(&line) {
                [b'E', b'R', b'R', b' ', text @ ..] | [3, text @ ..] => return Err(refusal(text)),
                [1 | 2, ..] => return Err(RemoteError::Malformed),
                _ if in_section => {}
                b"packfile" => return Ok(()),
                b"acknowledgments" | b"shallow-info" | b"wanted-refs" => in_section = true,
                line if is_first && is_acknowledgement(line) => {
                    return Err(RemoteError::UnsupportedVersion);
                }
                // Also a list of URLs to fetch packs from, which we never ask for.
                _ => return Err(RemoteError::Malformed),
            }
        }
    }

    /// Passes over acknowledgements, up to the side band or the bare pack.
    async fn open_v0(&mut self) -> Result<(), RemoteError> {
        let mut is_answered = false;
        loop {
            if is_answered && self.packets.is_at_pack().await? {
                self.state = State::Bare;
                return Ok(());
            }
            let line = match self.packets.next().await? {
                None => return Err(RemoteError::Truncated),
                Some(Owned::Data(line)) => line,
                // Ends the list of shallow commits.
                Some(Owned::Flush) => {
                    self.aside.spend(b"")?;
                    continue;
                }
                Some(_) => return Err(RemoteError::Malformed),
            };
            match line.first() {
                Some(1..=3) if is_answered => return self.take_band(line),
                Some(1 | 2) => return Err(RemoteError::Malformed),
                Some(3) => return Err(refusal(&line[1..])),
                _ => self.aside.spend(&line)?,
            }
            match pktline::strip_lf(&line) {
                [b'E', b'R', b'R', b' ', text @ ..] => return Err(refusal(text)),
                line if is_acknowledgement(line) => is_answered = true,
                line if line.starts_with(b"shallow ") || line.starts_with(b"unshallow ") => {}
                b"version 1" => {}
                _ => return Err(RemoteError::Malformed),
            }
        }
    }

    /// Reads until there is payload or the end.
    fn poll_payload(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RemoteError>> {
        while self.payload.is_empty() {
            // Lets go of the buffer, which can then be used again.
            self.payload = Bytes::new();
            match self.state {
                State::Over => break,
                State::Failed => return Poll::Ready(Err(RemoteError::Malformed)),
                State::Bare => {
                    self.payload = ready!(self.packets.poll_bare(cx))?;
                    if self.payload.is_empty() {
                        self.state = State::Over;
                    }
                }
                State::Banded => match ready!(self.packets.poll_next(cx))? {
                    Some(Owned::Data(packet)) => self.take_band(packet)?,
                    Some(Owned::Flush | Owned::ResponseEnd) => self.state = State::Over,
                    Some(Owned::Delim) => return Poll::Ready(Err(RemoteError::Malformed)),
                    None => return Poll::Ready(Err(RemoteError::Truncated)),
                },
            }
        }
        Poll::Ready(Ok(()))
    }

    fn take_band(&mut self, mut packet: Bytes) -> Result<(), RemoteError> {
        match &packet[..] {
            [1, _, ..] => {
                packet.advance(1);
                self.payload = packet;
                Ok(())
            }
            [] | [1] | [2, ..] => self.aside.spend(&packet),
            [b'E', b'R', b'R', b' ', text @ ..] | [3, text @ ..] => Err(refusal(text)),
            _ => Err(RemoteError::Malformed),
        }
    }
}

fn is_acknowledgement(line: &[u8]) -> bool {
    line == b"NAK" || line.starts_with(b"ACK ")
}

impl<R: AsyncRead + Unpin> AsyncRead for Pack<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if let Err(error) = ready!(self.poll_payload(cx)) {
            // A second read must not find an end, or go on behind the fault.
            self.state = State::Failed;
            return Poll::Ready(Err(error.into()));
        }
        let len = self.payload.len().min(buf.remaining());
        buf.put_slice(&self.payload[..len]);
        self.payload.advance(len);
        Poll::Ready(Ok(()))
    }
}
