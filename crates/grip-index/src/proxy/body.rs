//! The channel from the thread that writes a zip to the response body.
//!
//! Invariants:
//! - At most [`QUEUED`] chunks wait, however fast they are made.
//! - A zip that was not made to its end is never taken for a whole one: the stream ends with an
//!   error.
//! - When the stream is dropped, or is not read for the time of a stall, the work ends.

use std::{
    io::{self, Write},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::{
    runtime::Handle,
    sync::mpsc::{self, Receiver, Sender},
    time::timeout,
};

const CHUNK_BYTES: usize = 64 << 10;
const QUEUED: usize = 8;

enum Chunk {
    Data(Bytes),
    End,
    Failed(io::Error),
}

/// The two ends of a body. Made on the runtime, because the writer waits there.
pub(super) fn channel(stall: Duration) -> (Writer, Body) {
    let (sender, receiver) = mpsc::channel(QUEUED);
    let writer = Writer {
        sender,
        buffer: BytesMut::new(),
        runtime: Handle::current(),
        stall,
    };
    let chunks = Some(receiver);
    (writer, Body { chunks })
}

/// Takes the zip as it is made. Blocks.
pub(super) struct Writer {
    sender: Sender<Chunk>,
    buffer: BytesMut,
    runtime: Handle,
    stall: Duration,
}

impl Writer {
    /// Says how it ended; without this the reader gets an error that it was cut short.
    pub(super) fn end(mut self, result: io::Result<()>) {
        let last = match result.and_then(|()| self.flush()) {
            Ok(()) => Chunk::End,
            Err(error) => Chunk::Failed(error),
        };
        // If nobody reads any more, nobody needs to know.
        let _ = self.send(last);
    }

    /// Whether the reader has gone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }

    fn send(&self, chunk: Chunk) -> io::Result<()> {
        let sent = self
            .runtime
            .block_on(async { timeout(self.stall, self.sender.send(chunk)).await });
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = self.buffer.split().freeze();
        self.send(Chunk::Data(chunk))
    }
}

/// A zip as it is made. Dropping it ends the work.
#[must_use = "dropping it ends the work"]
pub struct Body {
    chunks: Option<Receiver<Chunk>>,
}

impl Stream for Body {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(chunks) = &mut self.chunks else {
            return Poll::Ready(None);
        };
        let error = match ready!(chunks.poll_recv(cx)) {
            Some(Chunk::Data(bytes)) => return Poll::Ready(Some(Ok(bytes))),
            Some(Chunk::End) => {
                self.chunks = None;
                return Poll::Ready(None);
            }
            Some(Chunk::Failed(error)) => error,
            None => io::Error::other("the zip was cut short"),
        };
        self.chunks = None;
        Poll::Ready(Some(Err(error)))
    }
}

#[cfg(test)]
mod tests;
