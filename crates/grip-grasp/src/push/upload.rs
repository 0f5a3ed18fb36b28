//! The rest of a push after its commands: the pack as it comes from the client.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    sync::oneshot,
};

/// How much of a refused upload is read so that the client gets to see the reason: a server that
/// closes earlier is shown as a broken pipe.
const MAX_DRAINED_BYTES: u64 = 256 * 1024 * 1024;
/// How long a refused upload is read for the same reason.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(60);

/// Reads what was taken with the commands, then the rest of the body; tells when the end of the
/// body has been read. A body that breaks off never tells.
pub(super) struct Upload<B> {
    taken: Bytes,
    body: B,
    ended: Option<oneshot::Sender<()>>,
}

impl<B> Upload<B> {
    pub(super) fn new(taken: Bytes, body: B) -> (Self, oneshot::Receiver<()>) {
        let (ended, at_end) = oneshot::channel();
        let upload = Self {
            taken,
            body,
            ended: Some(ended),
        };
        (upload, at_end)
    }
}

impl<B: AsyncRead + Unpin> AsyncRead for Upload<B> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.taken.is_empty() {
            let n = self.taken.len().min(buf.remaining());
            buf.put_slice(&self.taken.split_to(n));
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.body).poll_read(cx, buf);
        let came = buf.filled().len() - before;
        let nothing_came = came == 0 && buf.remaining() > 0;
        if matches!(read, Poll::Ready(Ok(())))
            && nothing_came
            && let Some(ended) = self.ended.take()
        {
            // Nobody listens any more if the client has gone; the pack is whole all the same.
            let _ = ended.send(());
        }
        read
    }
}

/// Reads and forgets the rest of a refused upload, within bounds of size and time.
pub(super) async fn drain(body: impl AsyncRead + Unpin) {
    let mut rest = body.take(MAX_DRAINED_BYTES);
    let mut nowhere = tokio::io::sink();
    let reading = tokio::io::copy(&mut rest, &mut nowhere);
    // However it ends, what follows is the refusal.
    let _ = tokio::time::timeout(MAX_DRAIN_TIME, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_is_told_once_all_was_read() {
        let (mut upload, mut at_end) = Upload::new(Bytes::from_static(b"PA"), &b"CK"[..]);
        let mut four = [0; 4];
        upload.read_exact(&mut four).await.unwrap();
        assert_eq!(&four, b"PACK");
        assert!(at_end.try_recv().is_err(), "the end has not been seen yet");
        assert_eq!(upload.read(&mut four).await.unwrap(), 0);
        assert!(at_end.try_recv().is_ok());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_has_no_end() {
        let broken = tokio_test_body();
        let (mut upload, mut at_end) = Upload::new(Bytes::new(), broken);
        let mut all = Vec::new();
        assert!(upload.read_to_end(&mut all).await.is_err());
        assert!(at_end.try_recv().is_err());
    }

    fn tokio_test_body() -> impl AsyncRead + Unpin {
        struct Broken;
        impl AsyncRead for Broken {
            fn poll_read(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
        }
        Broken
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_upload_that_stalls_is_given_up() {
        let (silent, _keeps_it_open) = tokio::io::duplex(16);
        drain(silent).await;
    }
}
