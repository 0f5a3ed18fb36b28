//! The relay at `/`: the WebSocket handshake, and frames on their way to the engine.

mod frame_lengths;

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Sink, Stream};
use grip_relay::{Frame, Peer};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf},
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message, Utf8Bytes,
        handshake::derive_accept_key,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use self::frame_lengths::FrameLengths;
use crate::{
    app::App,
    body::Body,
    client::Client,
    error::WebError,
    limits::{Class, ConnectionPermit, RequestPermit},
    negotiation, nip11, pages,
    request_context::{HttpResult, RequestContext},
    respond::{self, WithHeader as _},
    routes,
    server::Connection,
};

/// Taken at once for every connection; larger messages grow it while they are read.
const READ_BUFFER: usize = 4 << 10;

/// How much of a message that is too long is read, and how long, so that its sender hears why.
const MAX_DRAINED_BYTES: u64 = 64 << 20;
const MAX_DRAIN_TIME: Duration = Duration::from_secs(5);

/// How long a client may take to be told that its connection ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How much longer a message must be than the relay knows for it to be told.
const PARTIAL_STEP: usize = 64 << 10;

/// Frames gather up to this before they are written: small, since idle sockets are many.
const WRITE_BUFFER: usize = 16 << 10;

/// Whether a client asks for a WebSocket; the case of the words does not count.
fn is_upgrade(headers: &HeaderMap) -> bool {
    has_token(headers, &header::CONNECTION, "upgrade")
        && has_token(headers, &header::UPGRADE, "websocket")
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(token))
}

/// The relay, its NIP-11 document or the landing page: all live at `/`.
pub(crate) async fn root(cx: &RequestContext<'_>) -> HttpResult {
    if is_upgrade(cx.headers()) {
        return accept(cx);
    }
    routes::check_get(&cx.head.method)?;
    if negotiation::wants_relay_document(cx.headers()) {
        let limitation = nip11::Limitation::of(&cx.app.web.relay.limits());
        let dht = nip11::dht_addresses(cx.app.resolve().ok());
        return nip11::document(&cx.settings, &cx.app.web.build, limitation, dht);
    }
    let time = cx.settings.timeouts.answer;
    cx.limited(Class::Page, time, pages::home::page(cx)).await
}

/// A WebSocket with its permits.
struct Session {
    app: Arc<App>,
    client: Client,
    connection: Arc<Connection>,
    permit: RequestPermit,
    /// Set where the connection itself is a proxy's and only this socket counts for its client.
    connection_permit: Option<ConnectionPermit>,
}

/// Answers the handshake and hands the socket to the relay.
fn accept(cx: &RequestContext<'_>) -> HttpResult {
    let permit = cx.permit(Class::Websocket)?;
    // A direct connection is counted for its address already.
    let connection_permit = if cx.connection.is_proxy && !cx.client.exempt {
        Some(permit_behind_proxy(cx)?)
    } else {
        None
    };
    let key = handshake_key(&cx.head.method, cx.headers())?;
    let upgrade = cx.head.extensions.get::<OnUpgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| malformed("this connection cannot be upgraded"))?;
    let session = Session {
        app: Arc::clone(cx.app),
        client: cx.client,
        connection: Arc::clone(&cx.connection),
        permit,
        connection_permit,
    };
    // Boxed: wrapping moves a future, and its size would count three times in an idle socket.
    let serving = Box::pin(serve(upgrade, session));
    cx.app.group.spawn("websocket", serving);
    let mut response = respond::bare(StatusCode::SWITCHING_PROTOCOLS, Body::empty())
        .with(header::CONNECTION, "upgrade")
        .with(header::UPGRADE, "websocket");
    let headers = response.headers_mut();
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    Ok(response)
}

fn permit_behind_proxy(cx: &RequestContext<'_>) -> Result<ConnectionPermit, WebError> {
    let bounds = &cx.settings.limits;
    let permit = cx.app.limits.connection_behind_proxy(cx.client.ip, bounds);
    permit.map_err(|full| {
        cx.app.metrics.refused_connection(Some(full));
        WebError::TooManyConnections
    })
}

fn malformed(why: &str) -> WebError {
    WebError::Malformed(why.to_owned())
}

fn handshake_key(method: &Method, headers: &HeaderMap) -> Result<HeaderValue, WebError> {
    if method != Method::GET {
        return Err(malformed("a WebSocket begins with GET"));
    }
    if headers
        .get(header::SEC_WEBSOCKET_VERSION)
        .is_none_or(|v| v != "13")
    {
        return Err(malformed("only WebSocket version 13 is spoken here"));
    }
    let key = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .ok_or_else(|| malformed("Sec-WebSocket-Key is missing"))?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|e| WebError::internal("the WebSocket key cannot be answered", e))
}

async fn serve(upgrade: OnUpgrade, session: Session) {
    let began = Instant::now();
    let io = match upgrade.await {
        Ok(io) => TokioIo::new(io),
        Err(error) => {
            tracing::debug!(%error, "client left during the WebSocket handshake");
            return;
        }
    };
    let Session {
        app,
        client,
        connection,
        permit,
        connection_permit,
    } = session;
    let relay = &app.web.relay;
    let max_message = relay.limits().message_bytes;
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message));
    let io = Counted::new(io);
    let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
    let peer = Peer {
        ip: client.ip,
        exempt: client.exempt,
        connection: app.next_socket(),
    };
    let policy = Arc::clone(&app.policy);
    let mut frames = Frames {
        socket,
        is_too_long: false,
    };
    let private = app.settings().private.clone();
    let serving = async {
        match private {
            Some(private) => {
                let access = private.access;
                relay.serve_members(policy, access, &mut frames, peer).await;
            }
            None => relay.serve(policy, &mut frames, peer).await,
        }
    };
    match &app.web.leads {
        Some(leads) => {
            // Another node may have newer events by then.
            let leads = leads.runs_out();
            let has_ended = tokio::select! {
                () = serving => true,
                () = leads => false,
            };
            if !has_ended {
                frames.restart().await;
            }
        }
        None => serving.await,
    }
    frames.drain().await;
    app.metrics.socket_closed(began.elapsed());
    drop((connection, permit, connection_permit));
}

/// A socket that speaks the relay's frames.
struct Frames {
    socket: WebSocketStream<Counted>,
    /// A message was too long, and the rest of it is not read.
    is_too_long: bool,
}

impl Frames {
    /// Tells the client to connect again, which may lead it to another node.
    async fn restart(&mut self) {
        let close = CloseFrame {
            code: CloseCode::Restart,
            reason: Utf8Bytes::from_static("this server does not lead its cluster at the moment"),
        };
        // However it ends, the connection does.
        let _ = timeout(CLOSE_TIMEOUT, self.socket.close(Some(close))).await;
    }

    /// Reads on for a moment where a message was too long: a socket closed with unread bytes takes
    /// what the client should read with it.
    async fn drain(mut self) {
        if self.is_too_long {
            self.socket.get_mut().is_silent = true;
            let mut rest = self.socket.get_mut().take(MAX_DRAINED_BYTES);
            let mut nowhere = tokio::io::sink();
            let reading = tokio::io::copy(&mut rest, &mut nowhere);
            // However it ends, the client had its time.
            let _ = timeout(MAX_DRAIN_TIME, reading).await;
        }
    }
}

impl Frames {
    /// Tells of a message that is announced and not whole. The socket has been polled, so it wakes us
    /// for what follows either way.
    fn poll_partial(&mut self) -> Poll<Option<Result<Frame, tungstenite::Error>>> {
        match self.socket.get_mut().tell() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::Partial(bytes)))),
            None => Poll::Pending,
        }
    }
}

/// A connection that knows how long the message is that is read from it.
///
/// A frame takes its whole length of memory as soon as its head is there, however little of it comes:
/// so the relay is told of that length before another byte is read.
struct Counted {
    io: TokioIo<Upgraded>,
    lengths: FrameLengths,
    /// How much of the message under way the relay was told of.
    told: usize,
    /// Messages that had ended by then.
    ended: u64,
    /// Nobody listens any more.
    is_silent: bool,
}

impl Counted {
    fn new(io: TokioIo<Upgraded>) -> Self {
        Self {
            io,
            lengths: FrameLengths::default(),
            told: 0,
            ended: 0,
            is_silent: false,
        }
    }

    fn has_news(&self) -> bool {
        !self.is_silent && self.lengths.message >= self.told.saturating_add(PARTIAL_STEP)
    }

    /// The length of the message under way, if the relay does not know it yet.
    fn tell(&mut self) -> Option<usize> {
        if !self.has_news() {
            return None;
        }
        self.told = self.lengths.message;
        Some(self.told)
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_news() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(cx, buffer);
        self.lengths.read(&buffer.filled()[before..]);
        if self.ended != self.lengths.ended {
            self.ended = self.lengths.ended;
            self.told = 0;
        }
        read
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl Stream for Frames {
    type Item = Result<Frame, tungstenite::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_too_long {
            return Poll::Ready(None);
        }
        loop {
            let message = match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Ready(Some(message)) => message,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return self.poll_partial(),
            };
            match message.map(from_message) {
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Ok(None) => {}
                Err(tungstenite::Error::Capacity(_)) => {
                    self.is_too_long = true;
                    return Poll::Ready(Some(Ok(Frame::TooLong)));
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl Sink<Frame> for Frames {
    type Error = tungstenite::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.socket).poll_ready(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), Self::Error> {
        Pin::new(&mut self.socket).start_send(to_message(frame)?)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Pin::new(&mut self.socket).poll_close(cx)
    }
}

fn from_message(message: Message) -> Option<Frame> {
    match message {
        Message::Text(text) => Some(Frame::Text(text.into())),
        Message::Binary(_) => Some(Frame::Binary),
        Message::Ping(data) => Some(Frame::Ping(data)),
        Message::Pong(data) => Some(Frame::Pong(data)),
        Message::Close(close) => Some(match close {
            Some(close) => Frame::Close(close.code.into(), close.reason.to_string().into()),
            None => Frame::Close(1005, "".into()),
        }),
        Message::Frame(_) => None,
    }
}

fn to_message(frame: Frame) -> Result<Message, tungstenite::Error> {
    Ok(match frame {
        Frame::Text(bytes) => Message::Text(Utf8Bytes::try_from(bytes)?),
        Frame::Binary | Frame::TooLong | Frame::Partial(_) => Message::Binary(bytes::Bytes::new()),
        Frame::Ping(data) => Message::Ping(data),
        Frame::Pong(data) => Message::Pong(data),
        Frame::Close(code, reason) => Message::Close(Some(CloseFrame {
            code: code.into(),
            reason: reason.into_owned().into(),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::headers;

    #[test]
    fn an_upgrade_is_known_in_any_case_and_among_other_tokens() {
        for (connection, upgrade) in [
            ("Upgrade", "websocket"),
            ("upgrade", "WebSocket"),
            ("keep-alive, Upgrade", "WEBSOCKET"),
        ] {
            let headers = headers(&[("connection", connection), ("upgrade", upgrade)]);
            assert!(is_upgrade(&headers), "{connection} {upgrade}");
        }
        assert!(!is_upgrade(&headers(&[("upgrade", "websocket")])));
        assert!(!is_upgrade(&headers(&[
            ("connection", "upgrade"),
            ("upgrade", "h2c")
        ])));
    }

    #[test]
    fn the_handshake_needs_its_version_and_key() {
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let good = headers(&[key, ("sec-websocket-version", "13")]);
        let answer = handshake_key(&Method::GET, &good).unwrap();
        assert_eq!(answer, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(handshake_key(&Method::POST, &good).is_err());
        assert!(handshake_key(&Method::GET, &headers(&[key])).is_err());
        let keyless = headers(&[("sec-websocket-version", "13")]);
        assert!(handshake_key(&Method::GET, &keyless).is_err());
    }
}
