//! The body of a git request as a plain stream of bytes.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use grip_git::gunzip::Gunzip;
use grip_tasks::UploadProgress;
use http::{HeaderMap, header};
use hyper::body::Incoming;
use tokio::{
    io::{AsyncRead, AsyncReadExt, ReadBuf},
    time::{Instant, Sleep},
};

use crate::{
    error::WebError,
    settings::{TRANSFER_GRACE, WebSettings},
};

/// The content encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    Gzip,
}

impl Encoding {
    /// Reads `Content-Encoding`; git compresses long fetch requests, nothing else.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, WebError> {
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
pub(crate) enum Reader {
    Plain(Received),
    Gzip(Box<Gunzip<Received>>),
}

impl Reader {
    pub(crate) fn new(body: Incoming, encoding: Encoding, patience: Patience) -> Self {
        Self::watched(body, encoding, patience, Arc::default())
    }

    /// Notes the progress of the bytes as they come: what they inflate to costs its sender nothing.
    pub(crate) fn watched(
        body: Incoming,
        encoding: Encoding,
        patience: Patience,
        progress: Arc<UploadProgress>,
    ) -> Self {
        let received = Received::new(body, patience, progress);
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

/// How long a client may take to send a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For each [`PIECE`].
    pub(super) stall: Duration,
    /// On average, not counting the time in which we do not read; 0 for no such limit.
    pub(super) bytes_per_second: u64,
    /// For the whole.
    pub(super) total: Duration,
}

impl Patience {
    pub(crate) fn of(settings: &WebSettings) -> Self {
        Self {
            stall: settings.timeouts.body_stall,
            bytes_per_second: settings.timeouts.transfer_bytes_per_second,
            total: settings.timeouts.transfer,
        }
    }

    /// How long we may have waited for a client that has sent `bytes`.
    fn allowed(&self, bytes: u64) -> Duration {
        match bytes.checked_div(self.bytes_per_second) {
            Some(seconds) => Duration::from_secs(seconds).max(TRANSFER_GRACE),
            None => Duration::MAX,
        }
    }
}

/// The bytes as they came, within the time of [`Patience`].
pub(crate) struct Received<B = Incoming> {
    body: B,
    chunk: Bytes,
    /// What came since the deadline was set.
    fresh: usize,
    patience: Patience,
    began: Instant,
    received_bytes: u64,
    /// How long we have waited for the client, without the present time.
    waited: Duration,
    /// Since when we wait now.
    waiting_since: Option<Instant>,
    /// When the present [`PIECE`] is due.
    piece_due: Instant,
    deadline: Pin<Box<Sleep>>,
    progress: Arc<UploadProgress>,
}

impl<B> Received<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn new(body: B, patience: Patience, progress: Arc<UploadProgress>) -> Self {
        let began = Instant::now();
        let piece_due = began + patience.stall;
        Self {
            body,
            chunk: Bytes::new(),
            fresh: 0,
            patience,
            began,
            received_bytes: 0,
            waited: Duration::ZERO,
            waiting_since: None,
            piece_due,
            deadline: Box::pin(tokio::time::sleep_until(piece_due)),
            progress,
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(frame)) => frame.map_err(io::Error::other),
                Poll::Ready(None) => {
                    // What follows is our own time.
                    self.came(0);
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    let (due, why) = self.due();
                    self.deadline.as_mut().reset(due);
                    ready!(self.deadline.as_mut().poll(cx));
                    return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, why))));
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

    /// When we have waited long enough, and for what.
    fn due(&mut self) -> (Instant, &'static str) {
        self.progress.waiting();
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let allowed = self.patience.allowed(self.received_bytes);
        let slow = since.checked_add(allowed.saturating_sub(self.waited));
        let total = self.began.checked_add(self.patience.total);
        let stalled = "the client sent next to nothing for too long";
        let mut due = (self.piece_due, stalled);
        let others = [
            (slow, "the client sent too slowly for too long"),
            (total, "the client took too long to send it all"),
        ];
        for (at, why) in others {
            if let Some(at) = at.filter(|at| *at < due.0) {
                due = (at, why);
            }
        }
        due
    }

    fn came(&mut self, bytes: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        self.progress.received(bytes);
        self.received_bytes += bytes as u64;
        self.fresh += bytes;
        if self.fresh >= PIECE {
            self.fresh = 0;
            self.piece_due = Instant::now() + self.patience.stall;
        }
    }
}

impl<B> AsyncRead for Received<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
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

/// Bytes of a fetch that are read before it takes a permit: most requests are shorter.
const HEAD_BYTES: usize = 32 << 10;

/// The first bytes of a request.
pub(crate) struct RequestHead {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl RequestHead {
    /// The whole request, of which `rest` brings what is not here yet.
    pub(crate) fn followed_by<R>(self, rest: R) -> impl AsyncRead + Send + Unpin + use<R>
    where
        R: AsyncRead + Send + Unpin,
    {
        let left = if self.is_whole { 0 } else { u64::MAX };
        AsyncReadExt::chain(io::Cursor::new(self.bytes), rest.take(left))
    }
}

/// Reads a request up to its end or to [`HEAD_BYTES`].
pub(crate) async fn read_head(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<RequestHead> {
    let mut bytes = Vec::new();
    let read = reader
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut bytes)
        .await?;
    Ok(RequestHead {
        bytes,
        is_whole: read < HEAD_BYTES,
    })
}

/// Reads a push up to the flush after its commands, or to [`HEAD_BYTES`]; what is no packet is for who
/// reads the commands to refuse.
pub(crate) async fn read_commands(
    reader: &mut (impl AsyncRead + Unpin),
) -> io::Result<RequestHead> {
    let (mut bytes, mut is_whole) = (Vec::new(), false);
    while bytes.len() < HEAD_BYTES {
        let begin = bytes.len();
        let mut length = (&mut *reader).take(4);
        if length.read_to_end(&mut bytes).await? < 4 {
            is_whole = true;
            break;
        }
        let length = std::str::from_utf8(&bytes[begin..]).unwrap_or_default();
        let rest = match u64::from_str_radix(length, 16) {
            Ok(length @ 4..) => length - 4,
            _ => break,
        };
        let read = (&mut *reader).take(rest).read_to_end(&mut bytes).await?;
        if (read as u64) < rest {
            is_whole = true;
            break;
        }
    }
    Ok(RequestHead { bytes, is_whole })
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

    const PATIENCE: Patience = Patience {
        stall: Duration::from_secs(60),
        bytes_per_second: 1_000,
        total: Duration::from_secs(1_000),
    };

    /// Reads a body of which `bytes` come every second; returns what came of it and when.
    async fn trickled(bytes: usize, pause: Duration) -> (io::Error, Duration) {
        let chunks = futures_util::stream::unfold((), move |()| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let chunk = Bytes::from(vec![0; bytes]);
            Some((Ok::<_, io::Error>(http_body::Frame::data(chunk)), ()))
        });
        let body = http_body_util::StreamBody::new(Box::pin(chunks));
        let mut received = Received::new(body, PATIENCE, Arc::default());
        let began = Instant::now();
        let mut chunk = vec![0; 1 << 20];
        loop {
            match received.read(&mut chunk).await {
                Ok(_) => tokio::time::sleep(pause).await,
                Err(error) => return (error, began.elapsed()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_trickles_is_given_up_after_a_while() {
        let (error, after) = trickled(900, Duration::ZERO).await;
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("too slowly"), "{error}");
        assert!(
            after <= TRANSFER_GRACE + Duration::from_secs(1),
            "{after:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_quick_enough_has_its_whole_time_and_no_more() {
        for pause in [Duration::ZERO, Duration::from_secs(9)] {
            // The time in which we do not read is not the client's.
            let (error, after) = trickled(1_100, pause).await;
            assert!(error.to_string().contains("send it all"), "{error}");
            assert!(after >= PATIENCE.total, "{after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_after_the_end_of_a_body_makes_no_upload_slow() {
        let late = futures_util::stream::once(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, io::Error>(http_body::Frame::data(Bytes::from(vec![0; 1 << 20])))
        });
        let end = futures_util::stream::once(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok::<_, io::Error>(http_body::Frame::data(Bytes::new()))
        });
        let body = futures_util::StreamExt::chain(late, end);
        let body = http_body_util::StreamBody::new(Box::pin(body));
        let progress = Arc::<UploadProgress>::default();
        let mut received = Received::new(body, PATIENCE, Arc::clone(&progress));
        let mut whole = Vec::new();
        received.read_to_end(&mut whole).await.unwrap();
        tokio::time::advance(UploadProgress::GRACE * 10).await;
        assert!(!progress.is_slow());
    }

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
