//! Heads of git requests, read from a stream by an incremental parser.

use std::{io, time::Duration};

use bytes::BytesMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time,
};

/// Says whether a parser wants more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feed {
    More,
    /// The head is whole, or refused: `finish` of the parser tells.
    Complete,
}

/// Why no head of a request could be read from a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError<E> {
    #[error(transparent)]
    Refused(E),
    #[error("no byte of the request arrived for {} s", .0.as_secs())]
    Stalled(Duration),
    #[error("the connection broke while the request was read")]
    Client(#[source] io::Error),
}

/// Hands the bytes of a stream to a parser until it has enough or the stream ends.
pub(crate) async fn feed<R, E>(
    reader: &mut R,
    stall: Duration,
    step: usize,
    mut parser: impl FnMut(&[u8]) -> Feed,
) -> Result<(), ReadError<E>>
where
    R: AsyncRead + Unpin,
{
    let mut buffer = BytesMut::with_capacity(step);
    loop {
        buffer.clear();
        let read = time::timeout(stall, reader.read_buf(&mut buffer))
            .await
            .map_err(|_| ReadError::Stalled(stall))?
            .map_err(ReadError::Client)?;
        if read == 0 || parser(&buffer) == Feed::Complete {
            return Ok(());
        }
        // What inflates to much is there at once, and others have their turn.
        tokio::task::coop::consume_budget().await;
    }
}
