//! Bodies: what we send, and what we read with limits.

use std::{
    any::Any,
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};

type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of an answer: bytes at hand, or a stream that is never gathered in memory.
///
/// It carries what must stay taken until the last byte is sent: the slot of its route.
pub(crate) struct Body {
    content: Content,
    held: Vec<Box<dyn Any + Send>>,
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
        }
    }

    /// Bytes that are sent one after the other as they are, without being copied into one.
    pub(crate) fn pieces(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        Self {
            content: Content::Pieces(pieces.collect()),
            held: Vec::new(),
        }
    }

    /// Keeps `thing` until the body is sent or given up.
    pub(crate) fn hold(&mut self, thing: impl Any + Send) {
        self.held.push(Box::new(thing));
    }

    /// The length, if it is known beforehand.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.content {
            Content::Whole(bytes) => Some(bytes.len() as u64),
            Content::Pieces(pieces) => Some(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Content::Stream(_) => None,
        }
    }

    /// Leaves the body out, as for HEAD, but keeps what is held.
    pub(crate) fn clear(&mut self) {
        self.content = Content::Whole(Bytes::new());
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self {
            content: Content::Whole(bytes),
            held: Vec::new(),
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Content::Pieces(pieces) => {
                Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
            }
            Content::Stream(chunks) => chunks
                .as_mut()
                .poll_next(cx)
                .map(|next| next.map(|chunk| chunk.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.len() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.len()
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
