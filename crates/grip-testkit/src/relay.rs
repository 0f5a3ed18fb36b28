//! A relay client that says what it is told and shows what it hears.

use std::{collections::VecDeque, net::Ipv4Addr};

use anyhow::{Context as _, Result, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use nostr::prelude::{Event, EventId};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use crate::{Author, events::tag, http::dial, wait::within};

/// One connection to a relay.
#[derive(Debug)]
pub struct RelayClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Messages that came while another was awaited, oldest first.
    heard: VecDeque<Value>,
    next_sub: u32,
}

/// The relay's `OK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub accepted: bool,
    pub message: String,
}

impl Answer {
    /// Says whether the event was taken and waits for its git data.
    pub fn is_held(&self) -> bool {
        self.accepted && self.message.starts_with("purgatory:")
    }

    /// Says whether the event was taken and is served.
    pub fn is_served(&self) -> bool {
        self.accepted && !self.message.starts_with("purgatory:")
    }
}

/// Reads messages of any length.
fn unbounded() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(None)
        .max_frame_size(None)
}

impl RelayClient {
    /// Connects to `ws://…`.
    pub async fn connect(url: &str) -> Result<Self> {
        let connecting = tokio_tungstenite::connect_async_with_config(url, Some(unbounded()), true);
        let (socket, _) = within("a websocket", connecting)
            .await?
            .context("connecting")?;
        Ok(Self::new(socket))
    }

    /// Connects to a port of this machine from one of its addresses.
    pub async fn connect_from(from: Ipv4Addr, port: u16) -> Result<Self> {
        let connecting = async {
            let stream = MaybeTlsStream::Plain(dial(from, port).await?);
            let url = format!("ws://127.0.0.1:{port}");
            tokio_tungstenite::client_async_with_config(url, stream, Some(unbounded())).await
        };
        let (socket, _) = within("a websocket", connecting)
            .await?
            .context("connecting")?;
        Ok(Self::new(socket))
    }

    fn new(socket: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self {
            socket,
            heard: VecDeque::new(),
            next_sub: 0,
        }
    }

    pub async fn send_text(&mut self, text: impl Into<String>) -> Result<()> {
        self.socket
            .send(Message::text(text.into()))
            .await
            .context("sending")
    }

    pub async fn send_message(&mut self, message: Message) -> Result<()> {
        self.socket.send(message).await.context("sending")
    }

    pub async fn send(&mut self, message: Value) -> Result<()> {
        self.send_text(message.to_string()).await
    }

    /// The next message, whatever it is; `None` once the relay has closed.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        if let Some(message) = self.heard.pop_front() {
            return Ok(Some(message));
        }
        self.read().await
    }

    async fn read(&mut self) -> Result<Option<Value>> {
        let reading = async {
            loop {
                match self.socket.next().await {
                    None | Some(Ok(Message::Close(_)) | Err(_)) => return Ok(None),
                    Some(Ok(Message::Text(text))) => {
                        return serde_json::from_str(&text)
                            .map(Some)
                            .context("relay sent bad JSON");
                    }
                    Some(Ok(_)) => {}
                }
            }
        };
        within("a message from the relay", reading).await?
    }

    /// The next message for which `wanted` holds; others are kept for later.
    pub async fn expect(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        if let Some(at) = self.heard.iter().position(&wanted) {
            return Ok(self.heard.remove(at).expect("the position was just found"));
        }
        loop {
            let Some(message) = self.read().await.context(what.to_owned())? else {
                bail!("the relay closed while waiting for {what}");
            };
            if wanted(&message) {
                return Ok(message);
            }
            self.heard.push_back(message);
        }
    }

    /// Answers the challenge of a private relay.
    pub async fn log_in(&mut self, author: &Author, relay: &str) -> Result<Answer> {
        let challenge = self.expect("a challenge", |m| m[0] == "AUTH").await?;
        let challenge = challenge[1].as_str().context("a challenge is text")?;
        let tags = vec![tag(["relay", relay]), tag(["challenge", challenge])];
        let proof = author.sign(22_242, "", tags);
        self.send(json!(["AUTH", proof])).await?;
        self.answer(&proof.id).await
    }

    /// Publishes `event` and returns the relay's answer.
    pub async fn publish(&mut self, event: &Event) -> Result<Answer> {
        self.send(json!(["EVENT", event])).await?;
        self.answer(&event.id).await
    }

    /// Publishes and demands that the event be taken, served or held.
    pub async fn publish_ok(&mut self, event: &Event) -> Result<Answer> {
        let answer = self.publish(event).await?;
        if !answer.accepted {
            bail!(
                "kind {} was refused: {}",
                event.kind.as_u16(),
                answer.message
            );
        }
        Ok(answer)
    }

    /// Waits for the `OK` of an event sent before.
    pub async fn answer(&mut self, id: &EventId) -> Result<Answer> {
        let id = id.to_hex();
        let ok = self
            .expect("OK", |m| m[0] == "OK" && m[1] == id.as_str())
            .await?;
        Ok(Answer {
            accepted: ok[2].as_bool().context("OK without a verdict")?,
            message: ok[3].as_str().context("OK without a message")?.to_owned(),
        })
    }

    /// Opens a subscription and returns its id.
    pub async fn subscribe(&mut self, filters: &[Value]) -> Result<String> {
        self.next_sub += 1;
        let sub = format!("s{}", self.next_sub);
        let mut message = vec![json!("REQ"), json!(sub)];
        message.extend(filters.iter().cloned());
        self.send(Value::Array(message)).await?;
        Ok(sub)
    }

    /// Everything stored that matches, newest first as sent.
    pub async fn query(&mut self, filters: &[Value]) -> Result<Vec<Event>> {
        let sub = self.subscribe(filters).await?;
        let events = self.stored(&sub).await?;
        self.send(json!(["CLOSE", sub])).await?;
        Ok(events)
    }

    /// The events of `sub` up to its EOSE.
    pub async fn stored(&mut self, sub: &str) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let message = self.expect("EVENT or EOSE", |m| m[1] == sub).await?;
            match message[0].as_str() {
                Some("EVENT") => events.push(serde_json::from_value(message[2].clone())?),
                Some("EOSE") => return Ok(events),
                _ => bail!("subscription ended: {message}"),
            }
        }
    }

    /// The next live event of `sub`.
    pub async fn live(&mut self, sub: &str) -> Result<Event> {
        let message = self
            .expect("a live event", |m| m[0] == "EVENT" && m[1] == sub)
            .await?;
        Ok(serde_json::from_value(message[2].clone())?)
    }

    /// Says whether the event is served.
    pub async fn serves(&mut self, id: &EventId) -> Result<bool> {
        Ok(!self
            .query(&[json!({"ids": [id.to_hex()]})])
            .await?
            .is_empty())
    }
}
