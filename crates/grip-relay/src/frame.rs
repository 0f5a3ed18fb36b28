//! Frames of a connection, over any transport.

use std::{borrow::Cow, net::IpAddr};

use bytes::Bytes;

/// One message of a connection.
///
/// Pings that come in need no answer from here: the socket below answers them itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message that is longer than [`Limits::message_bytes`](crate::Limits); only ever received.
    TooLong,
    /// So many bytes of a message have come, and the rest has not; only ever received, as often as
    /// the socket finds it worth mention.
    Partial(usize),
    /// UTF-8 text. What comes in was checked by the socket; what goes out is JSON made here.
    Text(Bytes),
    /// Refused, so its bytes are not kept.
    Binary,
    Ping(Bytes),
    Pong(Bytes),
    /// A close code of RFC 6455 with a reason of at most 123 bytes.
    Close(u16, Cow<'static, str>),
}

impl Frame {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Bytes::from(text.into()))
    }
}

/// The client at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub ip: IpAddr,
    /// Bounds per network do not apply to it, as to a tool on this machine; rates do.
    pub exempt: bool,
    /// A number for the logs, given by the acceptor of the connection.
    pub connection: u64,
}
