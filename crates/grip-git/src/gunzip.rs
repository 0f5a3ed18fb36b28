//! Inflating request bodies, with a guard against bombs.
//!
//! The rule: a body may inflate to [`FREE_BYTES`] at any ratio, beyond that to [`MAX_RATIO`] times
//! what was received, and never beyond [`MAX_BYTES`]. Lists of `have` lines compress about 2:1 (the
//! ids are random) and long lists of similar `ref-prefix` lines up to some 15:1; deflate can reach
//! 1032:1, which is what a bomb does.

use std::{
    io::{self, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BytesMut};
use flate2::write::GzDecoder;
use tokio::io::{AsyncRead, ReadBuf};

pub const FREE_BYTES: u64 = 1 << 20;
pub const MAX_RATIO: u64 = 32;
pub const MAX_BYTES: u64 = 64 << 20;

/// Compressed bytes inflated at a time: at most 1 MiB comes out before the guard looks.
const STEP: usize = 1024;

/// Why an inflated body is refused; the source of the `io::Error` a reader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GunzipError {
    #[error("the compressed request inflates to far more than was sent")]
    Bomb,
    #[error("there is data after the end of the compressed request")]
    Trailing,
}

/// Reads the inflated form of a gzip stream.
pub struct Gunzip<R> {
    inner: R,
    decoder: GzDecoder<Vec<u8>>,
    input: Vec<u8>,
    output: BytesMut,
    received: u64,
    produced: u64,
    over: bool,
}

impl<R> Gunzip<R> {
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            decoder: GzDecoder::new(Vec::new()),
            input: vec![0; STEP],
            output: BytesMut::new(),
            received: 0,
            produced: 0,
            over: false,
        }
    }

    fn inflate(&mut self, len: usize) -> io::Result<()> {
        self.received += len as u64;
        let mut input = &self.input[..len];
        while !input.is_empty() {
            match self.decoder.write(input)? {
                0 => return Err(refusal(GunzipError::Trailing)),
                taken => input = &input[taken..],
            }
        }
        self.take_output()
    }

    fn end(&mut self) -> io::Result<()> {
        self.over = true;
        self.decoder.try_finish()?;
        self.take_output()
    }

    fn take_output(&mut self) -> io::Result<()> {
        let produced = self.decoder.get_mut();
        self.produced += produced.len() as u64;
        self.output.extend_from_slice(produced);
        produced.clear();
        let allowed = (FREE_BYTES + MAX_RATIO * self.received).min(MAX_BYTES);
        if self.produced > allowed {
            return Err(refusal(GunzipError::Bomb));
        }
        Ok(())
    }
}

fn refusal(error: GunzipError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl<R: AsyncRead + Unpin> AsyncRead for Gunzip<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.output.is_empty() && !this.over {
            let mut input = ReadBuf::new(&mut this.input);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut input))?;
            match input.filled().len() {
                0 => this.end()?,
                len => this.inflate(len)?,
            }
        }
        let len = this.output.len().min(buf.remaining());
        buf.put_slice(&this.output[..len]);
        this.output.advance(len);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    async fn inflate(compressed: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Gunzip::new(compressed).read_to_end(&mut out).await?;
        Ok(out)
    }

    fn refused(result: io::Result<Vec<u8>>) -> Option<GunzipError> {
        let error = result.err()?.into_inner()?;
        error.downcast_ref().copied()
    }

    #[tokio::test]
    async fn a_long_negotiation_passes() {
        let mut request = Vec::new();
        for n in 0..100_000_u64 {
            let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let line = format!("have {hash:016x}{:016x}{:08x}\n", !hash, hash as u32);
            crate::pktline::put(&mut request, line.as_bytes());
        }
        assert_eq!(inflate(&gzip(&request)).await.unwrap(), request);
    }

    #[tokio::test]
    async fn a_bomb_is_stopped_long_before_it_has_gone_off() {
        let bomb = gzip(&vec![0; 32 << 20]);
        assert_eq!(refused(inflate(&bomb).await), Some(GunzipError::Bomb));
    }

    #[tokio::test]
    async fn a_cut_or_spoilt_stream_is_an_error() {
        let whole = gzip(b"0000");
        assert!(inflate(&whole[..whole.len() - 1]).await.is_err());
        assert!(inflate(b"").await.is_err());
        assert!(inflate(b"not gzip at all").await.is_err());
        let mut trailing = whole.clone();
        trailing.extend_from_slice(b"x");
        assert!(inflate(&trailing).await.is_err());
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(data in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            prop_assert_eq!(runtime.block_on(inflate(&gzip(&data))).unwrap(), data);
        }

        #[test]
        fn arbitrary_bytes_never_panic(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(inflate(&data));
        }
    }
}
