//! Bodies of responses.

use std::{
    any::Any,
    collections::VecDeque,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use futures_util::Stream;
use http_body::{Frame, SizeHint};

use crate::server::Handed;

/// Longest piece of an answer over HTTP/2. A client that stops taking it leaves one in memory,
/// and has the time of a stall for each.
const PIECE: usize = 16 << 10;

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of an answer: bytes at hand, or a stream that is never gathered in memory.
///
/// It carries what must stay taken until the last byte is sent: the permit of its request.
pub(crate) struct Body {
    content: Content,
    held: Vec<Box<dyn Any + Send>>,
    watch: Option<Watch>,
}

/// Tells how far the client of an HTTP/2 stream has taken its answer.
struct Watch {
    handed: Arc<Handed>,
    /// What is left of the content's last bytes.
    rest: Bytes,
}

enum Content {
    Whole(Bytes),
    /// Bytes of several owners, one after the other; none of them is empty.
    Pieces(VecDeque<Bytes>),
    Stream(Chunks),
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::from(Bytes::new())
    }

    pub(crate) fn stream(chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self {
            content: Content::Stream(Box::pin(chunks)),
            held: Vec::new(),
            watch: None,
        }
    }

    /// Bytes that are sent one after the other as they are, without being copied into one.
    pub(crate) fn pieces(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        Self {
            content: Content::Pieces(pieces.collect()),
            held: Vec::new(),
            watch: None,
        }
    }

    /// Keeps `thing` until the body is sent or given up.
    pub(crate) fn hold(&mut self, thing: impl Any + Send) {
        self.held.push(Box::new(thing));
    }

    /// Notes in `handed` when a piece leaves and when the next is wanted.
    pub(crate) fn watch(&mut self, handed: Arc<Handed>) {
        let rest = Bytes::new();
        self.watch = Some(Watch { handed, rest });
    }

    /// The length of what is still to come, if it is known beforehand.
    pub(crate) fn len(&self) -> Option<u64> {
        let rest = self.watch.as_ref().map_or(0, |watch| watch.rest.len());
        let content: usize = match &self.content {
            Content::Whole(bytes) => bytes.len(),
            Content::Pieces(pieces) => pieces.iter().map(Bytes::len).sum(),
            Content::Stream(_) => return None,
        };
        Some((content + rest) as u64)
    }

    /// Leaves the body out, as for HEAD, but keeps what is held.
    pub(crate) fn clear(&mut self) {
        self.content = Content::Whole(Bytes::new());
    }
}

impl Content {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            Self::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(Ok)),
            Self::Stream(chunks) => chunks.as_mut().poll_next(cx),
        }
    }
}

impl Watch {
    /// The next piece, copied: what waits for a client must not keep the whole it was cut from.
    fn poll_next(
        &mut self,
        content: &mut Content,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        self.handed.wanted();
        if self.rest.is_empty() {
            match ready!(content.poll_next(cx)) {
                Some(Ok(bytes)) => self.rest = bytes,
                end => return Poll::Ready(end),
            }
        }
        let piece = self.rest.len().min(PIECE);
        let piece = Bytes::copy_from_slice(&self.rest[..piece]);
        self.rest.advance(piece.len());
        self.handed.piece(piece.len());
        Poll::Ready(Some(Ok(piece)))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self {
            content: Content::Whole(bytes),
            held: Vec::new(),
            watch: None,
        }
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Self { content, watch, .. } = self.get_mut();
        let next = match watch {
            Some(watch) => watch.poll_next(content, cx),
            None => content.poll_next(cx),
        };
        next.map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.len()
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn over_http_2_an_answer_leaves_in_small_pieces_and_none_is_lost() {
        let bytes: Vec<u8> = (0..PIECE * 2 + 5).map(|n| n as u8).collect();
        let whole = Bytes::from(bytes.clone());
        let halves = [whole.slice(..PIECE + 1), whole.slice(PIECE + 1..)];
        let chunks = halves.clone().map(Ok);
        for mut body in [
            Body::from(whole),
            Body::pieces(halves),
            Body::stream(stream::iter(chunks)),
        ] {
            body.watch(Arc::default());
            let (mut got, expected) = (Vec::new(), body.len());
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(!piece.is_empty() && piece.len() <= PIECE);
                got.extend(piece);
                let left = expected.map(|expected| expected - got.len() as u64);
                assert_eq!(body.len(), left);
            }
            assert!(got == bytes);
        }
    }
}
