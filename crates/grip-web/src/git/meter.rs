//! Bytes and outcome of a git operation, for the metrics.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;
use grip_git::FetchOutcome;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::Instant,
};

use crate::{app::App, metrics::GitOp};

/// One git operation; it is counted when the last handle to it is dropped.
#[derive(Clone)]
pub(super) struct Meter(Arc<Counted>);

struct Counted {
    app: Arc<App>,
    operation: GitOp,
    began: Instant,
    received: AtomicU64,
    sent: AtomicU64,
    succeeded: AtomicBool,
}

impl Meter {
    pub(super) fn new(app: &Arc<App>, operation: GitOp, began: Instant) -> Self {
        Self(Arc::new(Counted {
            app: Arc::clone(app),
            operation,
            began,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            succeeded: AtomicBool::new(false),
        }))
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.0.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn succeeded(&self) {
        self.0.succeeded.store(true, Ordering::Relaxed);
    }

    /// Counts what is read from `reader`.
    pub(super) fn reading<R>(&self, reader: R) -> MeteredRead<R> {
        MeteredRead {
            reader,
            meter: self.clone(),
        }
    }

    /// Counts what `stream` yields; its end without an error is success, unless `outcome` says otherwise.
    pub(super) fn sending<S>(self, stream: S, outcome: FetchOutcome) -> MeteredStream<S> {
        MeteredStream {
            stream,
            meter: self,
            outcome,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let metrics = &self.app.metrics;
        let ok = *self.succeeded.get_mut();
        metrics.git(self.operation, ok, self.began.elapsed());
        let sent = *self.sent.get_mut();
        // The probe before a large push has an empty answer and is no push.
        if self.operation == GitOp::Push && sent > 0 {
            metrics.push(ok);
        }
        metrics.git_bytes("in", *self.received.get_mut());
        metrics.git_bytes("out", sent);
    }
}

pub(super) struct MeteredRead<R> {
    reader: R,
    meter: Meter,
}

impl<R: AsyncRead + Unpin> AsyncRead for MeteredRead<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(cx, buf);
        let bytes = (buf.filled().len() - before) as u64;
        self.meter.0.received.fetch_add(bytes, Ordering::Relaxed);
        read
    }
}

pub(super) struct MeteredStream<S> {
    stream: S,
    meter: Meter,
    outcome: FetchOutcome,
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Stream for MeteredStream<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.stream).poll_next(cx);
        match &next {
            Poll::Ready(Some(Ok(chunk))) => self.meter.sent(chunk.len()),
            Poll::Ready(None) if !self.outcome.has_failed() => self.meter.succeeded(),
            Poll::Ready(None | Some(Err(_))) | Poll::Pending => {}
        }
        next
    }
}
