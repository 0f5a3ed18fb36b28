//! User-index relays: asked for the identity of one key, which is published to them.

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use grip_egress::{Egress, Socket, WebSocket};
use grip_nostr::{Event, PublicKey};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::KINDS;
use crate::{
    Options, PrivatePeers, RelayUrl,
    dial::{DialError, Dialler},
};

/// How long a connection or an answer may take.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Frames that are read while one answer is waited for.
const MAX_FRAMES: usize = 64;
const SUBSCRIPTION: &str = "identity";

/// What publishing needs of index relays.
pub(super) trait UserIndex {
    /// The newest event of each kind that a relay has of the key, each with a true signature.
    async fn identity(&self, relay: &RelayUrl, key: PublicKey) -> Result<Vec<Event>, AskError>;
    async fn publish(&self, relay: &RelayUrl, event: &Event) -> Result<(), AskError>;
}

/// Why a relay did not answer a request, or refused it.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the connection broke")]
    Lost,
    #[error("no answer came in time")]
    Late,
    #[error("it refused: {0}")]
    Refused(String),
}

impl AskError {
    /// Says whether it is no use to try again: the relay does not want such events, or is no relay
    /// for everybody.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Self::Dial(error) => matches!(error, DialError::Private | DialError::Forbidden(_)),
            Self::Lost | Self::Late => false,
            Self::Refused(text) => {
                let prefix = text.split(':').next().unwrap_or_default();
                ["blocked", "invalid", "restricted", "pow", "auth-required"].contains(&prefix)
            }
        }
    }
}

/// The relays themselves; each request has a connection of its own, since there are few.
pub(super) struct IndexRelays {
    dialler: Dialler,
}

impl IndexRelays {
    pub(super) fn new(egress: Egress) -> Self {
        let private = Arc::new(PrivatePeers::of_public());
        let max_message_bytes = Options::default().max_message_bytes;
        Self {
            dialler: Dialler::new(egress.clone(), egress, private, max_message_bytes),
        }
    }

    async fn open(&self, relay: &RelayUrl) -> Result<Connection, AskError> {
        let dialling = timeout(REQUEST_TIME, self.dialler.dial(relay, true));
        let (Socket { stream, .. }, _) = dialling.await.map_err(|_| AskError::Late)??;
        Ok(Connection(stream))
    }
}

impl UserIndex for IndexRelays {
    async fn identity(&self, relay: &RelayUrl, key: PublicKey) -> Result<Vec<Event>, AskError> {
        let mut connection = self.open(relay).await?;
        let asking = timeout(REQUEST_TIME, connection.identity(key));
        asking.await.map_err(|_| AskError::Late)?
    }

    async fn publish(&self, relay: &RelayUrl, event: &Event) -> Result<(), AskError> {
        let mut connection = self.open(relay).await?;
        let publishing = timeout(REQUEST_TIME, connection.publish(event));
        publishing.await.map_err(|_| AskError::Late)?
    }
}

struct Connection(WebSocket);

impl Connection {
    async fn identity(&mut self, key: PublicKey) -> Result<Vec<Event>, AskError> {
        let kinds = KINDS.map(|kind| kind.as_u16());
        let filter = json!({ "authors": [key.to_hex()], "kinds": kinds, "limit": 8 });
        self.send(&json!(["REQ", SUBSCRIPTION, filter])).await?;
        let mut found: Vec<Event> = Vec::new();
        for _ in 0..MAX_FRAMES {
            let message = self.next().await?;
            if message[1] != SUBSCRIPTION {
                continue;
            }
            match message[0].as_str() {
                Some("EVENT") => {
                    let event = serde_json::from_value::<Event>(message[2].clone()).ok();
                    let is_asked_for = |event: &Event| {
                        event.pubkey == key && KINDS.contains(&event.kind) && event.verify().is_ok()
                    };
                    found.extend(event.filter(is_asked_for));
                }
                Some("EOSE") => return Ok(newest(found)),
                Some("CLOSED") => return Err(refused(&message[2])),
                _ => {}
            }
        }
        Err(AskError::Lost)
    }

    async fn publish(&mut self, event: &Event) -> Result<(), AskError> {
        self.send(&json!(["EVENT", event])).await?;
        let id = event.id.to_hex();
        for _ in 0..MAX_FRAMES {
            let message = self.next().await?;
            if message[0] != "OK" || message[1] != id.as_str() {
                continue;
            }
            let text = message[3].as_str().unwrap_or_default();
            return if message[2] == true || text.starts_with("duplicate:") {
                Ok(())
            } else {
                Err(refused(&message[3]))
            };
        }
        Err(AskError::Lost)
    }

    async fn send(&mut self, message: &Value) -> Result<(), AskError> {
        let sent = self.0.send(Message::text(message.to_string())).await;
        sent.map_err(|_| AskError::Lost)
    }

    async fn next(&mut self) -> Result<Value, AskError> {
        while let Some(frame) = self.0.next().await {
            if let Message::Text(text) = frame.map_err(|_| AskError::Lost)? {
                return serde_json::from_str(&text).map_err(|_| AskError::Lost);
            }
        }
        Err(AskError::Lost)
    }
}

/// The newest of each kind; of one second that with the lowest id (NIP-01).
fn newest(mut found: Vec<Event>) -> Vec<Event> {
    found.sort_by_key(|event| (event.kind, std::cmp::Reverse(event.created_at), event.id));
    found.dedup_by_key(|event| event.kind);
    found
}

fn refused(text: &Value) -> AskError {
    let text = text.as_str().unwrap_or_default();
    AskError::Refused(text.chars().take(100).collect())
}
