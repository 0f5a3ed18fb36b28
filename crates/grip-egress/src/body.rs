//! The body of a response, within its limits.
//!
//! Invariant: the permit of the request is held exactly as long as bytes may still come.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use grip_limits::{Advice, Networks, Permit, Verdict};
use grip_types::Domain;
use http_body::Body as _;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

use crate::error::{EgressError, Fault, Phase};

/// The bytes of an answer as they come.
///
/// Ends with an error that has an [`EgressError`] inside (see [`EgressError::of`]) when the host
/// falls silent, breaks off, takes too long or sends too much. Dropping it before the end gives
/// the request up. The time that the reader takes by itself counts only towards the whole.
pub struct Body {
    stream: reqwest::Body,
    /// Arrived and not yet read.
    chunk: Bytes,
    domain: Domain,
    limits: Limits,
    /// The length that the host has announced, if it did.
    announced: Option<u64>,
    received: u64,
    /// Runs while the host is waited for.
    timer: Pin<Box<Sleep>>,
    is_waiting: bool,
    state: State,
    /// Present until the end, if anybody pays for this body.
    bill: Option<Bill>,
}

/// How much may come, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_bytes: u64,
    pub(crate) idle: Duration,
    pub(crate) deadline: Instant,
}

/// What is to be told about the host once its answer has ended well.
pub(crate) struct Bill {
    pub(crate) permit: Permit,
    /// Freed with it.
    pub(crate) _networks: Option<Permit<Networks>>,
    pub(crate) verdict: Verdict,
    pub(crate) advice: Option<Advice>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Failed,
}

impl Body {
    pub(crate) fn new(
        stream: reqwest::Body,
        domain: Domain,
        limits: Limits,
        bill: Option<Bill>,
    ) -> Self {
        Self {
            announced: stream.size_hint().exact(),
            stream,
            chunk: Bytes::new(),
            domain,
            limits,
            received: 0,
            timer: Box::pin(sleep_until(limits.deadline)),
            is_waiting: false,
            state: State::Open,
            bill,
        }
    }

    /// Waits for the next bytes; none at the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, EgressError>> {
        if Instant::now() >= self.limits.deadline {
            return Poll::Ready(Err(EgressError::TimedOut(Phase::Total)));
        }
        loop {
            let frame = match Pin::new(&mut self.stream).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return self.poll_timer(cx).map(Err),
            };
            let Some(frame) = frame else {
                return Poll::Ready(Ok(None));
            };
            match frame.map(|frame| frame.into_data()) {
                // Trailers and empty pieces are no bytes: the clock runs on.
                Ok(Ok(chunk)) if !chunk.is_empty() => {
                    self.is_waiting = false;
                    return Poll::Ready(Ok(Some(chunk)));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            }
        }
    }

    /// Ends when the host has been waited for long enough.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<EgressError> {
        let Limits { idle, deadline, .. } = self.limits;
        if !self.is_waiting {
            self.is_waiting = true;
            let until = deadline.min(Instant::now() + idle);
            self.timer.as_mut().reset(until);
        }
        ready!(self.timer.as_mut().poll(cx));
        let what = if Instant::now() >= deadline {
            Phase::Total
        } else {
            Phase::Body
        };
        Poll::Ready(EgressError::TimedOut(what))
    }

    fn broken(&self, error: reqwest::Error) -> EgressError {
        let source = Fault::new(error);
        tracing::debug!(domain = %self.domain, detail = %source.detail(), "response broke off");
        EgressError::BrokenOff {
            domain: self.domain.clone(),
            source,
        }
    }

    fn take_chunk(&mut self, chunk: Bytes) -> Result<(), EgressError> {
        self.received += chunk.len() as u64;
        let limit = self.limits.max_bytes;
        if self.received > limit {
            return Err(EgressError::TooBig { limit });
        }
        self.chunk = chunk;
        if self.announced == Some(self.received) {
            self.end();
        }
        Ok(())
    }

    fn end(&mut self) {
        self.state = State::Ended;
        if let Some(bill) = self.bill.take() {
            bill.permit.finish(bill.verdict, bill.advice);
        }
    }

    fn fail(&mut self, error: EgressError) -> io::Error {
        self.state = State::Failed;
        // Nothing more is wanted from this host: the connection closes now, not with the reader.
        self.stream = reqwest::Body::from(Bytes::new());
        if let Some(bill) = self.bill.take() {
            let verdict = match error {
                EgressError::TooBig { .. } => Verdict::Neutral,
                _ => Verdict::Failure,
            };
            bill.permit.finish(verdict, bill.advice);
        }
        error.into()
    }
}

impl AsyncRead for Body {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        while this.chunk.is_empty() {
            match this.state {
                State::Open => {}
                State::Ended => return Poll::Ready(Ok(())),
                State::Failed => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
            let step = match ready!(this.poll_chunk(cx)) {
                Ok(Some(chunk)) => this.take_chunk(chunk),
                Ok(None) => {
                    this.end();
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                return Poll::Ready(Err(this.fail(error)));
            }
        }
        let count = this.chunk.len().min(buf.remaining());
        buf.put_slice(&this.chunk[..count]);
        this.chunk.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A host that asked us to wait is heard even if the rest of its answer is not.
        if let Some(Bill {
            permit,
            advice: Some(advice),
            ..
        }) = self.bill.take()
        {
            permit.finish(Verdict::Neutral, Some(advice));
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("domain", &self.domain)
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
