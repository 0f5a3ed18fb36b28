//! A connection on which the same event is sent without end.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{WebSocketStream, tungstenite::Message};

/// Waits for the first REQ and sends until the client leaves.
pub(super) async fn send(
    mut socket: WebSocketStream<TcpStream>,
    event: &Value,
    sent: &AtomicU64,
) -> Result<()> {
    while let Some(message) = socket.next().await {
        let Message::Text(text) = message? else {
            continue;
        };
        let message: Value = serde_json::from_str(&text)?;
        if message[0] != "REQ" {
            continue;
        }
        let answer = json!(["EVENT", message[1], event]).to_string();
        loop {
            socket.send(Message::text(answer.clone())).await?;
            sent.fetch_add(answer.len() as u64, Ordering::Relaxed);
        }
    }
    Ok(())
}
