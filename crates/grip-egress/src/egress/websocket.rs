//! Websockets to other hosts: the same guard, addresses and permits as requests, no redirects.

use std::net::SocketAddr;

use grip_limits::{Permit, Verdict};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};
use url::Url;

use super::{Egress, response};
use crate::{
    error::{EgressError, Phase, Unusable},
    options::RequestPolicy,
};

/// What a websocket reads at once, and gathers before it writes. There are many, and most are idle.
const BUFFER_BYTES: usize = 8 << 10;

/// An open websocket.
pub type WebSocket = WebSocketStream<reqwest::Upgraded>;

/// A websocket, and the address that it goes to.
pub struct Socket {
    pub stream: WebSocket,
    pub address: Option<SocketAddr>,
}

impl Egress {
    /// Opens a websocket to `url` (`ws` or `wss`), on which no message is longer than
    /// `max_message_bytes`. `permit` pays for the dial alone: the connection may stay for days.
    ///
    /// Cancel safe in that nothing stays taken; the host may have seen the request.
    pub async fn websocket(
        &self,
        url: &Url,
        max_message_bytes: usize,
        permit: Permit,
    ) -> Result<Socket, EgressError> {
        let url = as_http(url);
        let permit = self.check_first(&RequestPolicy::default(), &url, permit)?;
        let domain = permit.domain().clone();
        let options = &self.inner.options;
        let deadline = Instant::now() + options.connect + options.idle;
        let client = &self.inner.websockets;
        let routed = self.route_or_settle(client, &url, permit, deadline);
        // Its networks are counted for the time of the dial.
        let (_route, permit) = routed.await?;
        let key = generate_key();
        let mut request = reqwest::Request::new(Method::GET, url);
        *request.headers_mut() = upgrade_headers(&key);
        let asking = client.http.execute(request);
        let response = match timeout_at(deadline, asking).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(response::no_response(error, permit)),
            Err(_) => {
                permit.finish(Verdict::Failure, None);
                return Err(EgressError::TimedOut(Phase::Headers));
            }
        };
        let (status, headers) = (response.status(), response.headers());
        let (reading, advice) = response::read_head(status, headers, b"", true);
        if status != StatusCode::SWITCHING_PROTOCOLS {
            permit.finish(reading.verdict, advice);
            return Err(EgressError::Status {
                status,
                message: String::new(),
                kind: reading.kind,
                retry_after: None,
            });
        }
        let expected = derive_accept_key(key.as_bytes());
        let accepted = headers.get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accept| accept.as_bytes() != expected.as_bytes()) {
            permit.finish(Verdict::Failure, None);
            return Err(EgressError::Unusable(Unusable::NoWebSocket));
        }
        let address = response.remote_addr();
        let upgraded = match timeout_at(deadline, response.upgrade()).await {
            Ok(Ok(upgraded)) => upgraded,
            Ok(Err(error)) => return Err(response::no_response(error, permit)),
            Err(_) => {
                permit.finish(Verdict::Failure, None);
                return Err(EgressError::TimedOut(Phase::Headers));
            }
        };
        permit.finish(Verdict::Success, None);
        tracing::debug!(%domain, "opened websocket");
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .max_message_size(Some(max_message_bytes))
            .max_frame_size(Some(max_message_bytes));
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Socket { stream, address })
    }

    /// [`Egress::check`] for the URL of a websocket.
    pub fn check_websocket(&self, url: &Url) -> Result<grip_types::Domain, crate::Forbidden> {
        self.check(&as_http(url))
    }
}

/// The same URL as the handshake asks for it.
fn as_http(url: &Url) -> Url {
    let scheme = match url.scheme() {
        "ws" => "http:",
        "wss" => "https:",
        _ => return url.clone(),
    };
    let rest = url.as_str().split_once(':').map_or("", |(_, rest)| rest);
    Url::parse(&format!("{scheme}{rest}")).unwrap_or_else(|_| url.clone())
}

fn upgrade_headers(key: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    let key = HeaderValue::from_str(key).expect("base64 fits a header");
    headers.insert(SEC_WEBSOCKET_KEY, key);
    headers
}
