//! Wire format of the request protocol.
//!
//! A request is one byte of length and the key. A response is four bytes of length and a body:
//! one byte of kind, then for a busy peer nothing, else the value, the providers and the closer
//! peers. Every list and text is preceded by its length, every length is checked before anything
//! is kept, and a body that goes on after its end is refused.
//!
//! Invariant: what a peer claims about lengths costs no memory; only what it sends does.

use std::{io, time::Duration};

use bytes::Bytes;
use libp2p::{
    Multiaddr, PeerId,
    futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
};
use tokio::time::timeout;

use crate::{RecordKey, limits};

const FOUND: u8 = 0;
const BUSY: u8 = 1;

/// Longest list of peers, in bytes.
const LIST_BYTES: usize = 1 + limits::PEERS * PEER_BYTES;
const PEER_BYTES: usize = 2 + limits::NAME_BYTES + limits::ADDRESSES * (2 + limits::ADDRESS_BYTES);

/// Longest body of a response.
pub(super) const BODY_BYTES: usize = 6 + limits::VALUE_BYTES + 2 * LIST_BYTES;

/// The part of a response that must be taken within one timeout.
const PIECE_BYTES: usize = 64 * 1024;

/// A peer of a response.
pub(super) type PeerAddresses = (PeerId, Vec<Multiaddr>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WireResponse {
    Busy,
    Found(Found),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub value: Option<Bytes>,
    pub providers: Vec<PeerAddresses>,
    pub closer: Vec<PeerAddresses>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    #[error("the stream broke")]
    Io(#[from] io::Error),
    #[error("longer than allowed")]
    TooLarge,
    #[error("not valid in this protocol")]
    Malformed,
}

/// Sends a request and leaves the stream open: closing it cancels the request.
pub(super) async fn write_request<W>(stream: &mut W, key: &RecordKey) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let key = key.as_bytes();
    let mut frame = Vec::with_capacity(1 + key.len());
    frame.push(u8::try_from(key.len()).expect("because keys are shorter than 256 bytes"));
    frame.extend_from_slice(key);
    stream.write_all(&frame).await?;
    stream.flush().await
}

pub(super) async fn read_request<R>(stream: &mut R) -> Result<RecordKey, CodecError>
where
    R: AsyncRead + Unpin,
{
    let mut length = [0];
    stream.read_exact(&mut length).await?;
    let mut key = vec![0; usize::from(length[0])];
    stream.read_exact(&mut key).await?;
    RecordKey::new(key).map_err(|_| CodecError::Malformed)
}

/// Sends a response and closes the stream; gives up on a peer that takes no piece of it within
/// `write_timeout`.
pub(super) async fn write_response<W>(
    stream: &mut W,
    response: &WireResponse,
    write_timeout: Duration,
) -> io::Result<()>
where
    W: AsyncWrite + Unpin,
{
    let body = encode(response);
    let length = u32::try_from(body.len()).expect("because responses are bounded");
    within(write_timeout, stream.write_all(&length.to_be_bytes())).await?;
    for piece in body.chunks(PIECE_BYTES) {
        within(write_timeout, stream.write_all(piece)).await?;
    }
    within(write_timeout, stream.close()).await
}

async fn within(
    write_timeout: Duration,
    work: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let done = timeout(write_timeout, work).await;
    done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Reads a response to the end of the stream.
pub(super) async fn read_response<R>(stream: &mut R) -> Result<WireResponse, CodecError>
where
    R: AsyncRead + Unpin,
{
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_be_bytes(length);
    if length as usize > BODY_BYTES {
        return Err(CodecError::TooLarge);
    }
    let mut body = Vec::new();
    let read = stream
        .take(u64::from(length))
        .read_to_end(&mut body)
        .await?;
    if read < length as usize {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    if stream.read(&mut [0]).await? > 0 {
        return Err(CodecError::Malformed);
    }
    decode(body.into())
}

pub(super) fn encode(response: &WireResponse) -> Vec<u8> {
    let WireResponse::Found(found) = response else {
        return vec![BUSY];
    };
    let value = found.value.as_ref();
    let mut body = Vec::with_capacity(16 + value.map_or(0, Bytes::len));
    body.push(FOUND);
    body.push(u8::from(value.is_some()));
    if let Some(value) = value {
        body.extend_from_slice(&(value.len() as u32).to_be_bytes());
        body.extend_from_slice(value);
    }
    put_peers(&mut body, &found.providers);
    put_peers(&mut body, &found.closer);
    body
}

fn put_peers(body: &mut Vec<u8>, peers: &[PeerAddresses]) {
    let peers = &peers[..peers.len().min(limits::PEERS)];
    body.push(peers.len() as u8);
    for (id, addresses) in peers {
        let id = id.to_bytes();
        body.push(id.len() as u8);
        body.extend_from_slice(&id);
        let fits = |address: &&Multiaddr| address.len() <= limits::ADDRESS_BYTES;
        let addresses: Vec<_> = addresses
            .iter()
            .filter(fits)
            .take(limits::ADDRESSES)
            .collect();
        body.push(addresses.len() as u8);
        for address in addresses {
            body.extend_from_slice(&(address.len() as u16).to_be_bytes());
            body.extend_from_slice(address.as_ref());
        }
    }
}

/// Reads a whole body; the value shares its memory.
pub(super) fn decode(body: Bytes) -> Result<WireResponse, CodecError> {
    let mut rest = Rest(body);
    let response = match rest.byte()? {
        BUSY => WireResponse::Busy,
        FOUND => WireResponse::Found(Found {
            value: rest.value()?,
            providers: rest.peers()?,
            closer: rest.peers()?,
        }),
        _ => return Err(CodecError::Malformed),
    };
    if rest.0.is_empty() {
        Ok(response)
    } else {
        Err(CodecError::Malformed)
    }
}

/// The rest of a body.
struct Rest(Bytes);

impl Rest {
    fn take(&mut self, n: usize) -> Result<Bytes, CodecError> {
        if n > self.0.len() {
            return Err(CodecError::Malformed);
        }
        Ok(self.0.split_to(n))
    }

    fn byte(&mut self) -> Result<u8, CodecError> {
        Ok(self.take(1)?[0])
    }

    /// A number of one byte that may not be above `most`.
    fn count(&mut self, most: usize) -> Result<usize, CodecError> {
        let count = usize::from(self.byte()?);
        if count > most {
            return Err(CodecError::TooLarge);
        }
        Ok(count)
    }

    fn value(&mut self) -> Result<Option<Bytes>, CodecError> {
        match self.byte()? {
            0 => return Ok(None),
            1 => {}
            _ => return Err(CodecError::Malformed),
        }
        let length = self.take(4)?;
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        if length > limits::VALUE_BYTES {
            return Err(CodecError::TooLarge);
        }
        self.take(length).map(Some)
    }

    fn peers(&mut self) -> Result<Vec<PeerAddresses>, CodecError> {
        let count = self.count(limits::PEERS)?;
        (0..count).map(|_| self.peer()).collect()
    }

    fn peer(&mut self) -> Result<PeerAddresses, CodecError> {
        let length = self.count(limits::NAME_BYTES)?;
        let id = PeerId::from_bytes(&self.take(length)?).map_err(|_| CodecError::Malformed)?;
        let count = self.count(limits::ADDRESSES)?;
        let addresses: Result<Vec<_>, _> = (0..count).map(|_| self.address()).collect();
        Ok((id, addresses?))
    }

    fn address(&mut self) -> Result<Multiaddr, CodecError> {
        let length = self.take(2)?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        if length > limits::ADDRESS_BYTES {
            return Err(CodecError::TooLarge);
        }
        Multiaddr::try_from(self.take(length)?.to_vec()).map_err(|_| CodecError::Malformed)
    }
}

#[cfg(test)]
mod tests;
