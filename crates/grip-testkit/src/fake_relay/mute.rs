//! A connection that is read and never answered.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use anyhow::Result;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, protocol::Role},
};

/// Hears until the client leaves.
pub(super) async fn listen(stream: TcpStream, hear: impl Fn(Value)) -> Result<()> {
    let mut socket = WebSocketStream::from_raw_socket(Mute(stream), Role::Server, None).await;
    while let Some(message) = socket.next().await {
        match message? {
            Message::Ping(_) => hear(json!(["PING"])),
            Message::Text(text) => hear(serde_json::from_str(&text)?),
            _ => {}
        }
    }
    Ok(())
}

/// Loses all that is written: the protocol answers pings by itself.
struct Mute(TcpStream);

impl AsyncRead for Mute {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Mute {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
