//! A client of the relay that asks one thing at a time.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::{SinkExt as _, StreamExt as _};
use nostr::prelude::Event;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

/// How long a connection or an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

pub(super) struct RelayClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl RelayClient {
    /// Connects to a relay by its URL, or to that of a node by its HTTP URL.
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let url = match url.strip_prefix("http") {
            Some(rest) => format!("ws{rest}"),
            None if url.starts_with("ws") => url.to_owned(),
            None => bail!("{url} is no URL of a relay"),
        };
        let connected = timeout(PATIENCE, connect_async(url)).await;
        let (socket, _) = connected.context("no answer in time")??;
        Ok(Self { socket })
    }

    /// Sends an event; returns what the relay says once it has accepted it.
    pub(super) async fn publish(&mut self, event: &Event) -> anyhow::Result<String> {
        let id = event.id.to_hex();
        self.send(&json!(["EVENT", event])).await?;
        loop {
            let answer = self.next().await?;
            if answer[0] != "OK" || answer[1] != id.as_str() {
                continue;
            }
            let text = answer[3].as_str().unwrap_or_default().to_owned();
            if answer[2] == true {
                return Ok(text);
            }
            bail!("{text}");
        }
    }

    /// The stored events that a filter finds.
    pub(super) async fn query(&mut self, filter: Value) -> anyhow::Result<Vec<Value>> {
        self.send(&json!(["REQ", "selftest", filter])).await?;
        let mut found = Vec::new();
        loop {
            let mut answer = self.next().await?;
            match answer[0].as_str() {
                Some("EVENT") => found.push(answer[2].take()),
                Some("EOSE") => {
                    self.send(&json!(["CLOSE", "selftest"])).await?;
                    return Ok(found);
                }
                Some("CLOSED") => bail!("{}", answer[2].as_str().unwrap_or_default()),
                _ => {}
            }
        }
    }

    pub(super) async fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        let text = Message::text(message.to_string());
        let sent = timeout(PATIENCE, self.socket.send(text)).await;
        Ok(sent.context("the relay does not take a message")??)
    }

    async fn next(&mut self) -> anyhow::Result<Value> {
        let next = timeout(PATIENCE, self.next_unhurried()).await;
        next.context("no answer in time")?
    }

    /// The next message, whenever it comes.
    pub(super) async fn next_unhurried(&mut self) -> anyhow::Result<Value> {
        loop {
            let message = self.socket.next().await;
            match message.context("the relay closed the connection")?? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Close(_) => bail!("the relay closed the connection"),
                _ => {}
            }
        }
    }
}
