//! Reading the head of a request, of whichever kind, from a stream.

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

/// Why a stream gave no more bytes.
pub(crate) enum Broken {
    Stalled(Duration),
    Client(io::Error),
}

/// Hands the bytes of a stream to a parser until it has enough or the stream ends.
pub(crate) async fn feed<R>(
    reader: &mut R,
    stall: Duration,
    step: usize,
    mut parser: impl FnMut(&[u8]) -> Feed,
) -> Result<(), Broken>
where
    R: AsyncRead + Unpin,
{
    let mut buffer = BytesMut::with_capacity(step);
    loop {
        buffer.clear();
        let read = time::timeout(stall, reader.read_buf(&mut buffer))
            .await
            .map_err(|_| Broken::Stalled(stall))?
            .map_err(Broken::Client)?;
        if read == 0 || parser(&buffer) == Feed::Complete {
            return Ok(());
        }
    }
}
